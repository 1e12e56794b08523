"""Bytes that nobody of good will sends, on every RPC: a clear status, a daemon that serves on, nothing executed."""

import asyncio
import contextlib
import json
import math
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
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


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """One event loop for all examples: gRPC's poller outlives the loop it began with."""
    with asyncio.Runner() as runner:
        yield runner


def path_of(name: str) -> str:
    """``/package.Service/Method`` of a method's full name."""
    service, _, method = name.rpartition(".")
    return f"/{service}/{method}"


async def send(address: str, name: str, messages: list[bytes]) -> grpc.StatusCode:
    """Send raw bytes to a method, then end our side. Returns the status that ends the RPC."""
    method = METHODS[name]

    async def requests() -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    async with grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        call: Any
        if method.client_streaming:
            call = channel.stream_stream(path_of(name))(requests(), timeout=60)
            # The status comes behind all messages.
            with contextlib.suppress(grpc.aio.AioRpcError):
                while await call.read() is not grpc.aio.EOF:
                    pass
        elif method.server_streaming:
            call = channel.unary_stream(path_of(name))(messages[0], timeout=60)
            await asyncio.wait({asyncio.ensure_future(call.read())})
            call.cancel()
            code = await call.code()
            # Ours, if the daemon had not ended it first.
            return grpc.StatusCode.OK if code == grpc.StatusCode.CANCELLED else code
        else:
            call = channel.unary_unary(path_of(name))(messages[0], timeout=60)
        return await call.code()


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
def test_random_bytes(loop: asyncio.Runner, hostile_daemon: DaemonProcess, name: str, messages: list[bytes]) -> None:
    assert loop.run(send(hostile_daemon.address, name, messages)) in CLEAR
    assert hostile_daemon.process.poll() is None


@relaxed
@given(messages=st.lists(near_requests, min_size=1, max_size=5))
def test_well_formed_messages_in_any_order(
    loop: asyncio.Runner, hostile_daemon: DaemonProcess, messages: list[bytes]
) -> None:
    name = "inductord.v1.CompilerService.Compile"
    assert loop.run(send(hostile_daemon.address, name, messages)) in CLEAR
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
def test_reports_of_any_numbers(
    loop: asyncio.Runner, hostile_daemon: DaemonProcess, reports: list[pb.RankStats]
) -> None:
    name = "inductord.v1.CompilerService.ReportRank"
    for stats in reports:
        request = pb.ReportRankRequest(requester=pb.Requester(job="j"), stats=stats).SerializeToString()
        assert loop.run(send(hostile_daemon.address, name, [request])) in CLEAR
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
