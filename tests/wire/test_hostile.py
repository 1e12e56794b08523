"""Bytes that nobody of good will sends, on every RPC: a clear status, a daemon that serves on, nothing executed."""

import json
import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.daemon import DaemonProcess, running_daemon
from support.rank import key_of, rank

from inductord.compiler.versions import this_version
from inductord.v1 import admin_pb2
from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.wire, pytest.mark.chaos]

METHODS = {
    method.full_name: method
    for file in (pb.DESCRIPTOR, admin_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
    # It would end the daemon, as it should.
    if method.name != "Shutdown"
}
# What a daemon may answer to nonsense. UNKNOWN and INTERNAL would be defects of ours.
CLEAR = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.NOT_FOUND,
}
GRAPH = json.dumps([["size", 10]]).encode()


class Bomb:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (open, (str(self.mark), "w"))


@pytest.fixture(scope="module")
def hostile_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One daemon for all examples. A stalled stream must not hold up the test, so heartbeats are short."""
    with running_daemon(tmp_path_factory.mktemp("hostile"), max_graph_bytes="1MiB") as daemon:
        yield daemon
        assert "a defect of inductord" not in daemon.log()
        assert "Traceback" not in daemon.log()


def path_of(name: str) -> str:
    """``/package.Service/Method`` of a method's full name."""
    service, _, method = name.rpartition(".")
    return f"/{service}/{method}"


def send(daemon: DaemonProcess, name: str, messages: list[bytes]) -> grpc.StatusCode:
    """Send raw bytes to a method, then end our side. Returns the status that the daemon ends the RPC with.

    The blocking client it is: the other one reports a write to an ended stream as an error of its own.
    """
    method = METHODS[name]
    with daemon.channel() as channel:
        call: Any
        if method.client_streaming:
            call = channel.stream_stream(path_of(name))(iter(messages), timeout=60)
        else:
            call = channel.unary_stream(path_of(name))(messages[0], timeout=60)
        try:
            for _ in call:
                if method.server_streaming and not method.client_streaming:
                    # It would go on for ever.
                    return grpc.StatusCode.OK
        except grpc.RpcError:
            assert call.code() is not None
        finally:
            call.cancel()
        code: grpc.StatusCode = call.code()
        return code


async def serves_on(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        assert (await one.compile(GRAPH)).artifact


def opening(key: str = "a" * 64) -> bytes:
    return pb.CompileRequest(open=pb.OpenCompile(client=this_version(), key=key)).SerializeToString()


# Bytes at random rarely get past the decoder; these do.
near_requests = st.one_of(
    st.builds(
        lambda key, job, nodes: pb.CompileRequest(
            open=pb.OpenCompile(
                client=this_version(), key=key, nodes=nodes, requester=pb.Requester(job=job, rank=nodes, pid=nodes)
            )
        ).SerializeToString(),
        st.one_of(st.just("a" * 64), st.text(max_size=70)),
        st.text(max_size=200),
        st.integers(0, 2**32 - 1),
    ),
    st.builds(
        lambda size, digest: pb.CompileRequest(graph=pb.BlobHeader(size=size, sha256=digest)).SerializeToString(),
        st.integers(0, 2**64 - 1),
        st.binary(max_size=40),
    ),
    st.builds(lambda chunk: pb.CompileRequest(chunk=chunk).SerializeToString(), st.binary(max_size=100)),
    st.just(pb.CompileRequest(refused=pb.GraphRefused()).SerializeToString()),
    st.just(b""),
)
relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", METHODS)
@relaxed
@given(messages=st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_random_bytes(hostile_daemon: DaemonProcess, name: str, messages: list[bytes]) -> None:
    assert send(hostile_daemon, name, messages) in CLEAR
    assert hostile_daemon.process.poll() is None


@relaxed
@given(messages=st.lists(near_requests, min_size=1, max_size=5))
def test_well_formed_messages_in_any_order(hostile_daemon: DaemonProcess, messages: list[bytes]) -> None:
    name = "inductord.v1.CompilerService.Compile"
    assert send(hostile_daemon, name, messages) in CLEAR
    assert hostile_daemon.process.poll() is None


@relaxed
@given(
    reports=st.lists(
        st.builds(
            pb.RankStats,
            requests=st.integers(0, 2**64 - 1),
            hits=st.integers(0, 2**64 - 1),
            load_seconds=st.floats(),
            wait_seconds=st.floats(),
            fallbacks=st.dictionaries(st.text(max_size=20), st.integers(0, 2**64 - 1), max_size=3),
            keys=st.lists(st.text(max_size=70), max_size=3),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_reports_of_any_numbers(hostile_daemon: DaemonProcess, reports: list[pb.RankStats]) -> None:
    name = "inductord.v1.CompilerService.ReportRank"
    for stats in reports:
        request = pb.ReportRankRequest(requester=pb.Requester(job="j"), stats=stats).SerializeToString()
        assert send(hostile_daemon, name, [request]) in CLEAR
    # What was taken in must not spoil what is given out.
    assert all(math.isfinite(job.sum.wait_seconds) for job in hostile_daemon.status().jobs)


async def test_a_pickle_is_carried_and_not_opened(hostile_daemon: DaemonProcess, tmp_path: Path) -> None:
    mark = tmp_path / "opened"
    bomb = pickle.dumps(Bomb(mark))
    async with rank(hostile_daemon.address) as one:
        made = await one.compile(bomb)
        found = await one.fetch(key_of(bomb))
    assert found.artifact == made.artifact
    assert not mark.exists()


async def test_after_all_that_it_serves_on(hostile_daemon: DaemonProcess) -> None:
    await serves_on(hostile_daemon)
    assert not hostile_daemon.status().compiles
