"""The rank's own client against a real daemon with scripted workers: what it gives, and how it gives up."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.daemon import DaemonProcess, wait_until
from support.pools import DEADLINE_S
from support.rank import key_of
from support.scrape import nonzero
from support.stores import hangs_at, key_file
from workers.scripted import artifact_of

from inductord.compiler.client import Client, CompileFailed, Received
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.compiler.versions import this_version
from inductord.v1 import admin_pb2, admin_pb2_grpc
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire

REQUESTER = pb.Requester(job="client", rank=0, world_size=1, pid=1)


def script(*steps: list[Any]) -> bytes:
    return json.dumps(steps).encode()


class Asker:
    """A client, and what it was asked and told."""

    def __init__(self, address: str) -> None:
        self.client = Client(address)
        self.serialized = 0
        self.states: list[int] = []

    def __call__(
        self, graph: bytes, max_wait: float = DEADLINE_S, serialize: Callable[[], bytes] | None = None
    ) -> Received:
        def give() -> bytes:
            self.serialized += 1
            return graph

        request = pb.OpenCompile(
            client=this_version(), key=key_of(graph), kind=pb.GRAPH_KIND_FORWARD, requester=REQUESTER
        )
        return self.client.compile(
            request, serialize or give, lambda progress: self.states.append(progress.state), max_wait
        )

    def measured(self, graph: bytes, compile_here: Callable[[], bytes]) -> Received:
        """A graph that is measured while it is compiled."""

        def never() -> bytes:
            raise AssertionError("the pool has no device")

        request = pb.OpenCompile(client=this_version(), key=key_of(graph), requester=REQUESTER, needs_device=True)
        return self.client.compile(request, never, lambda _: None, DEADLINE_S, compile_here=compile_here)


@pytest.fixture
def asker() -> Iterator[Callable[[DaemonProcess], Asker]]:
    """Makes clients that are closed after the test."""
    made: list[Asker] = []

    def make(daemon: DaemonProcess) -> Asker:
        made.append(Asker(daemon.address))
        return made[-1]

    yield make
    for each in made:
        each.client.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(9) as pool:
        yield pool


def gives_up(call: Callable[[], object]) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        call()
    return caught.value


def waiters(daemon: DaemonProcess) -> int:
    return sum(each.waiters for each in daemon.status().compiles)


def compiling(asking: Asker) -> Callable[[], bool]:
    return lambda: pb.COMPILE_STATE_COMPILING in asking.states


def test_the_graph_is_serialised_only_when_asked_for(daemon: DaemonProcess, asker: Callable[..., Asker]) -> None:
    graph = script(["size", 3_000_000])
    first, second = asker(daemon), asker(daemon)
    led, hit = first(graph), second(graph)
    assert (led.served, hit.served) == (pb.SERVED_LED, pb.SERVED_HIT)
    assert led.artifact == hit.artifact == artifact_of(graph, 3_000_000)
    assert (first.serialized, second.serialized) == (1, 0)
    assert led.compile_seconds == hit.compile_seconds
    # A hit counts when the daemon hears that the file was read, which the rank does not wait for.
    wait_until(lambda: daemon.status().totals.hits == 1, "the hit")
    totals = daemon.status().totals
    assert (totals.requests, totals.led, totals.compiles) == (2, 1, 1)


def test_one_connection_serves_one_graph_after_the_other(daemon: DaemonProcess, asker: Callable[..., Asker]) -> None:
    asking = asker(daemon)
    for size in (1, 2_500_000, 64, 1):
        graph = script(["size", size])
        assert asking(graph).artifact == artifact_of(graph, size)
    assert asking.serialized == 3


def test_threads_of_a_rank_wait_for_one_compile(
    daemon: DaemonProcess, asker: Callable[..., Asker], threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    graph = script(["wait_for", str(tmp_path / "go")])
    asking = asker(daemon)
    waiting: list[Future[Received]] = [threads.submit(asking, graph) for _ in range(4)]
    wait_until(lambda: waiters(daemon) == 4, "all wait")
    (tmp_path / "go").touch()
    received = [future.result(DEADLINE_S) for future in waiting]
    assert {each.artifact for each in received} == {artifact_of(graph)}
    assert sorted(each.served for each in received) == [pb.SERVED_JOINED] * 3 + [pb.SERVED_LED]
    assert asking.serialized == 1
    assert set(asking.states) >= {pb.COMPILE_STATE_COMPILING}


def test_what_the_pool_has_no_device_for_is_compiled_by_the_first_who_asks(
    daemon: DaemonProcess, asker: Callable[..., Asker]
) -> None:
    one, other = asker(daemon), asker(daemon)
    compiled = [each.measured(b"a graph", lambda: b"measured here") for each in (one, other)]
    assert [each.artifact for each in compiled] == [b"measured here"] * 2
    assert [each.served for each in compiled] == [pb.SERVED_LED, pb.SERVED_HIT]


def test_a_compile_failure_is_no_failure_of_the_service(daemon: DaemonProcess, asker: Callable[..., Asker]) -> None:
    asking = asker(daemon)
    graph = script(["fail", "no such lowering"])
    for remembered in (False, True):
        with pytest.raises(CompileFailed) as caught:
            asking(graph)
        assert caught.value.failure.kind == pb.FAILURE_KIND_COMPILE_ERROR
        assert "Traceback (scripted)" in caught.value.failure.traceback
        assert caught.value.failure.remembered is remembered
    assert asking(script(["size", 7])).artifact


def test_what_serialising_raises_reaches_the_rank_and_frees_the_others(
    daemon: DaemonProcess, asker: Callable[..., Asker]
) -> None:
    def cannot() -> bytes:
        raise ValueError("cannot pickle that")

    asking, other = asker(daemon), asker(daemon)
    graph = script(["size", 8])
    with pytest.raises(ValueError, match="cannot pickle that"):
        asking(graph, serialize=cannot)
    assert other(graph).served == pb.SERVED_LED


def test_a_graph_that_is_too_large_is_not_sent(
    start_daemon: Callable[..., DaemonProcess], asker: Callable[..., Asker]
) -> None:
    daemon = start_daemon(max_graph_bytes=50)
    asking = asker(daemon)
    lost = gives_up(lambda: asking(script(["print", "x" * 100])))
    assert lost.reason is Fallback.GRAPH_TOO_LARGE
    assert "the daemon takes 50" in str(lost)
    assert asking(script(["size", 9])).artifact


@pytest.mark.parametrize(
    "address", ["unix:{folder}/nobody.sock", "unix:{folder}/dead.sock", "tcp:localhost:1", "unix:d"]
)
def test_nobody_there_is_found_out_at_once(tmp_path: Path, address: str) -> None:
    with socket.socket(socket.AF_UNIX) as dead:  # a daemon that was killed leaves its socket behind
        dead.bind(str(tmp_path / "dead.sock"))
    asking = Asker(address.format(folder=tmp_path))
    lost = gives_up(lambda: asking(script()))
    assert lost.reason is Fallback.DAEMON_ABSENT
    assert asking.serialized == 0


def test_at_each_stage_a_wait_ends_as_it_was_said_and_soon_when_the_daemon_is_frozen(
    start_daemon: Callable[..., DaemonProcess],
    asker: Callable[..., Asker],
    threads: ThreadPoolExecutor,
    tmp_path: Path,
) -> None:
    looked_up, uploaded, queued = (script(["size", size]) for size in (14, 15, 16))
    compiled = script(["wait_for", str(tmp_path / "go")])
    keys = key_file(tmp_path)
    # Looking into this shared store waits for one who writes, and nobody does.
    hangs_at(tmp_path / "shared", key_of(looked_up))
    shared = {"shared_store": f"file://{tmp_path}/shared", "shared_store_keys": keys, "shared_store_timeout": 60}
    daemon = start_daemon(max_workers=1, **shared)
    serialized = threading.Event()

    def late() -> bytes:
        serialized.wait()
        return uploaded

    def waits(graph: bytes, state: int) -> Future[Received]:
        asking = asker(daemon)
        waiting = threads.submit(asking, graph)
        wait_until(lambda: state in asking.states, f"it waits in state {state}")
        return waiting

    leading = threads.submit(asker(daemon), uploaded, serialize=late)
    wait_until(lambda: waiters(daemon) == 1, "it is asked for the graph")
    patient = [
        waits(looked_up, pb.COMPILE_STATE_UPLOADING),
        waits(uploaded, pb.COMPILE_STATE_UPLOADING),
        waits(compiled, pb.COMPILE_STATE_COMPILING),
        waits(queued, pb.COMPILE_STATE_QUEUED),
    ]
    others = [asker(daemon) for _ in patient]
    for each in others:
        each.client.capabilities()  # So that what it may wait is not spent on connecting.
    impatient = [
        threads.submit(asking, graph, max_wait=2.0)
        for asking, graph in zip(others, (looked_up, uploaded, compiled, queued), strict=True)
    ]
    for each in impatient:
        lost = gives_up(lambda waiting=each: waiting.result(DEADLINE_S))
        assert lost.reason is Fallback.WAIT_EXCEEDED
        assert "INDUCTORD_MAX_WAIT" in str(lost)
    wait_until(lambda: waiters(daemon) == 1 + len(patient), "the daemon knows that they left")
    assert nonzero(daemon, "inductord_compile_requests_total")["cancelled"] == len(patient)
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        for each in patient:
            assert gives_up(lambda waiting=each: waiting.result(DEADLINE_S)).reason is Fallback.DAEMON_SILENT
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        (tmp_path / "go").touch()
        serialized.set()
    # What was begun goes on, and serves the next who asks.
    assert leading.result(DEADLINE_S).served == pb.SERVED_LED
    assert asker(daemon)(compiled).served in (pb.SERVED_HIT, pb.SERVED_JOINED)


def test_a_daemon_that_dies_is_lost(
    daemon: DaemonProcess, asker: Callable[..., Asker], threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    asking = asker(daemon)
    waiting = threads.submit(asking, script(["wait_for", str(tmp_path / "go")]))
    wait_until(compiling(asking), "it is being compiled")
    daemon.kill()
    assert gives_up(lambda: waiting.result(DEADLINE_S)).reason is Fallback.DAEMON_LOST
    assert gives_up(lambda: asking(script())).reason is Fallback.DAEMON_ABSENT


def test_one_that_comes_back_is_used_again(daemon: DaemonProcess, asker: Callable[..., Asker]) -> None:
    asking = asker(daemon)
    graph = script(["size", 11])
    asking(graph)
    daemon.stop()
    assert gives_up(lambda: asking(graph)).reason in (Fallback.DAEMON_LOST, Fallback.DAEMON_ABSENT)
    daemon.start()
    assert asking(graph).served == pb.SERVED_HIT


def test_a_full_daemon_refuses(
    start_daemon: Callable[..., DaemonProcess],
    asker: Callable[..., Asker],
    threads: ThreadPoolExecutor,
    tmp_path: Path,
) -> None:
    daemon = start_daemon(max_waiters=1)
    asking, other = asker(daemon), asker(daemon)
    waiting = threads.submit(asking, script(["wait_for", str(tmp_path / "go")]))
    wait_until(compiling(asking), "it is being compiled")
    assert gives_up(lambda: other(script(["size", 1]))).reason is Fallback.DAEMON_BUSY
    (tmp_path / "go").touch()
    assert waiting.result(DEADLINE_S).artifact
    assert other(script(["size", 1])).artifact


_FORKING = """
import json, os, sys, threading, time
from support.rank import key_of
from inductord.compiler.client import Client
from inductord.compiler.versions import this_version
from inductord.v1 import compiler_pb2 as pb

client = Client(sys.argv[1])

def ask(number):
    graph = json.dumps([["size", number]]).encode()
    request = pb.OpenCompile(client=this_version(), key=key_of(graph), kind=pb.GRAPH_KIND_FORWARD)
    return len(client.compile(request, lambda: graph, lambda progress: None, 60).artifact)

def leave(code):
    # The daemon has heard of all that was read here.
    while any(thread.name == "inductord-read" for thread in threading.enumerate()):
        time.sleep(0.01)
    os._exit(code)

assert ask(10) == 10
child = os.fork()
if child == 0:
    # A data loader that compiles: a connection of its own, and the parent's stays whole.
    leave(0 if [ask(20), ask(10)] == [20, 10] else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 0, f"the child ended with {status}"  # below 0: of a signal
leave(0 if [ask(20), ask(30)] == [20, 30] else 1)
"""


def test_a_forked_process_has_its_own_connection(daemon: DaemonProcess) -> None:
    env = {"PYTHONPATH": str(Path(__file__).parent.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", _FORKING, daemon.address], env=env, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    # A hit counts when the daemon hears that the file was read, which the rank does not wait for.
    wait_until(lambda: daemon.status().totals.hits == 2, "two hits")
    totals = daemon.status().totals
    assert (totals.compiles, totals.requests) == (3, 5)


def test_a_connection_is_not_dropped_for_the_loss_of_an_earlier_one(daemon: DaemonProcess) -> None:
    client = Client(daemon.address)
    lost = client.channel()
    client.close()
    good = client.channel()  # by another thread, say
    assert client._reconnect(lost)
    assert client.channel() is good
    client.close()


def test_counts_of_a_rank_reach_the_daemon(daemon: DaemonProcess, asker: Callable[..., Asker]) -> None:
    asking = asker(daemon)
    stats = pb.RankStats(requests=3, fallbacks={"daemon_busy": 2})
    report = pb.ReportRankRequest(requester=REQUESTER, stats=stats)
    # Without a connection there is nobody to tell, and no harm.
    assert asking.client.report(report) is None
    asking(script(["size", 12]))
    assert asking.client.report(report) is not None
    with daemon.channel() as channel:
        request = admin_pb2.GetJobRequest(job="client")
        job = admin_pb2_grpc.AdminServiceStub(channel).GetJob(request, timeout=DEADLINE_S).job
    assert (job.ranks, job.sum.requests, dict(job.sum.fallbacks)) == (1, 3, {"daemon_busy": 2})


def test_no_thread_is_left_behind(daemon: DaemonProcess, asker: Callable[..., Asker]) -> None:
    asking = asker(daemon)
    graph = script(["size", 13])
    for _ in range(20):
        asking(graph)

    def readers() -> int:
        return sum(thread.name == "inductord-read" for thread in threading.enumerate())

    wait_until(lambda: readers() == 0, "all streams have ended")
