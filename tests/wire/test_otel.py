"""Traces of OpenTelemetry over rank, daemon and worker: three processes, one trace, received by a collector of our own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.collector import Collector, Seen, collecting
from support.daemon import DaemonProcess, running_daemon, wait_until
from support.pools import DEADLINE_S
from support.rank import key_of, rank

pytestmark = pytest.mark.wire

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

# What a rank does with a graph, without torch.
RANK = """
import sys
from inductord.compiler.client import Client
from inductord.compiler.settings import from_environment
from inductord.compiler.telemetry import Telemetry
from inductord.compiler.versions import this_version
from inductord.v1 import compiler_pb2 as pb
address, key, graph = sys.argv[1:]
telemetry = Telemetry(from_environment())
with telemetry.timeline.graph(pb.GRAPH_KIND_FORWARD, 7) as recorder:
    recorder.identified(key)
    request = pb.OpenCompile(client=this_version(), key=key, kind=pb.GRAPH_KIND_FORWARD, nodes=7,
                             requester=telemetry.requester())
    with recorder.stage(pb.STAGE_KIND_WAIT):
        received = Client(address).compile(request, graph.encode, lambda progress: None, 60, recorder.traceparent)
    recorder.served(received.served)
print(*sorted(name for name in sys.modules if name.startswith("opentelemetry.sdk"))[:1])
"""


def run_rank(daemon: DaemonProcess, graph: bytes, **more: str) -> "subprocess.Popen[str]":
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "INDUCTORD"))}
    argv = [sys.executable, "-c", RANK, daemon.address, key_of(graph), graph.decode()]
    return subprocess.Popen(argv, env={**env, "INDUCTORD_JOB": "traced", **more}, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def chain(collector: Collector, span: Seen) -> list[tuple[str, str]]:
    """From a span to the root of its trace: service and name."""
    by_id = {each.id: each for each in collector.spans}
    found = []
    while True:
        found.append((span.service, span.name))
        if span.parent not in by_id:
            return found
        span = by_id[span.parent]


def test_one_trace_of_three_processes(collector: Collector, tmp_path: Path) -> None:
    go = tmp_path / "go"
    graph = json.dumps([["wait_for", str(go)]]).encode()
    with running_daemon(tmp_path / "daemon", collector.environment) as daemon:
        ranks = [run_rank(daemon, graph, RANK=str(number), **collector.environment) for number in range(2)]
        try:
            wait_until(lambda: [each.waiters for each in daemon.status().compiles] == [2], "both wait")
            go.touch()
            said = [process.communicate(timeout=DEADLINE_S)[0] for process in ranks]
        finally:
            for process in ranks:
                process.kill()
        assert [process.returncode for process in ranks] == [0, 0]
        assert all("opentelemetry.sdk" in each for each in said)
        wait_until(lambda: len(collector.named("inductord.worker.compile")) == 1, "the worker's span")
        wait_until(lambda: len(collector.named("inductord.request")) == 2, "the daemon's spans")
        wait_until(lambda: len(collector.named("inductord.compile")) == 1, "the daemon's compile")
    (worker,), (compile_,) = collector.named("inductord.worker.compile"), collector.named("inductord.compile")
    assert chain(collector, worker) == [
        ("inductord-worker", "inductord.worker.compile"),
        ("inductord-daemon", "inductord.compile"),
        ("inductord-daemon", "inductord.request"),
        ("inductord-rank", "inductord.graph"),
    ]
    leader, joiner = sorted(collector.named("inductord.graph"), key=lambda span: span.trace != worker.trace)
    assert (leader.about["inductord.served"], joiner.about["inductord.served"]) == ("led", "joined")
    assert leader.trace == worker.trace != joiner.trace
    joined = next(span for span in collector.named("inductord.request") if span.parent == joiner.id)
    assert compile_.links == (joined.id,), "the compile also says whom else it served"
    assert len({span.pid for span in (worker, compile_, leader, joiner)}) == 4
    assert leader.about["inductord.key"] == worker.about["inductord.key"] == key_of(graph)
    assert leader.about["inductord.job"] == "traced"
    assert {span.name for span in collector.spans if span.parent == worker.id} == {"compile"}
    assert {span.name for span in collector.spans if span.parent == compile_.id} == {"queued", worker.name}
    assert {span.name for span in collector.spans if span.parent == leader.id} == {"wait", "inductord.request"}
    assert all(span.start <= span.end for span in collector.spans)


async def test_failures_are_errors_and_contexts_from_outside_are_checked(collector: Collector, tmp_path: Path) -> None:
    broken, fine = json.dumps([["fail", "no such operator"]]).encode(), b"[]"
    with running_daemon(tmp_path / "daemon", collector.environment) as daemon:
        async with rank(daemon.address) as one:
            await one.compile(broken)
            await one.compile(fine)
            for context in (PARENT, "00-nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01"):
                await one.compile(fine, metadata=(("traceparent", context),))
        wait_until(lambda: len(collector.named("inductord.worker.compile")) == 2, "the worker's spans")
        wait_until(lambda: len(collector.named("inductord.request")) == 5, "the requests")
    failed = {span.name: span.error for span in collector.spans if span.error}
    assert failed == {
        "inductord.worker.compile": "no such operator",
        "inductord.compile": "FAILURE_KIND_COMPILE_ERROR: no such operator",
    }
    hits = [span for span in collector.named("inductord.request") if span.about["inductord.served"] == "SERVED_HIT"]
    _, trace, parent, _ = PARENT.split("-")
    assert [(span.trace, span.parent) for span in hits if span.parent] == [(trace, parent)]
    assert len(hits) == 3


def test_nothing_is_imported_or_sent_when_nothing_asks_for_it(daemon: DaemonProcess) -> None:
    process = run_rank(daemon, b"[]")
    assert process.communicate(timeout=DEADLINE_S)[0] == "\n"
    assert process.returncode == 0


def test_a_collector_that_does_not_answer_costs_no_job(daemon: DaemonProcess) -> None:
    process = run_rank(daemon, b"[]", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert "opentelemetry.sdk" in process.communicate(timeout=DEADLINE_S)[0]
    assert process.returncode == 0
