"""What the daemon refuses, each with its documented status, and that it serves on afterwards."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from support.daemon import DaemonProcess, running_daemon
from support.pools import until
from support.rank import Rank, RankStream, key_of, rank

from inductord.compiler.versions import KEY_FORMAT, PROTOCOL, this_version
from inductord.v1 import admin_pb2, admin_pb2_grpc
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

pytestmark = pytest.mark.wire

GRAPH = json.dumps([["size", 10]]).encode()
MIB = 1 << 20


async def code_of(work: Awaitable[Any]) -> grpc.StatusCode:
    """The status of an RPC that fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    assert caught.value.details()
    return caught.value.code()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One daemon for all refusals that leave nothing behind."""
    with running_daemon(tmp_path_factory.mktemp("refusals")) as daemon:
        yield daemon


@pytest.fixture
async def one(shared: DaemonProcess) -> AsyncIterator[Rank]:
    async with rank(shared.address) as connected:
        yield connected
        # Whatever was refused, the daemon goes on.
        assert (await connected.compile(GRAPH)).artifact


async def asked(one: Rank) -> RankStream:
    """A stream that is asked for its graph."""
    stream = await one.open("a" * 64)
    await stream.until("send_graph")
    return stream


@pytest.mark.parametrize(
    "client",
    [pb.Version(protocol=PROTOCOL + 1, key_format=KEY_FORMAT), pb.Version(protocol=PROTOCOL, key_format=0), None],
    ids=["protocol", "key format", "absent"],
)
async def test_another_version_is_told_so(one: Rank, client: pb.Version | None) -> None:
    assert await code_of(one.fetch("a" * 64, client=client)) == grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize("key", ["", "a" * 63, "A" * 64, "../../etc/passwd", "g" * 64, "a" * 65, "a" * 63 + "\n"])
async def test_a_malformed_key(one: Rank, key: str) -> None:
    assert await code_of(one.fetch(key)) == grpc.StatusCode.INVALID_ARGUMENT
    assert await code_of(one.stub.Lookup(pb.LookupRequest(keys=[key]))) == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "fields",
    [
        {"requester": pb.Requester(job="j" * 1000)},
        {"key_parts": {str(number): "x" for number in range(1000)}},
        {"key_parts": {"x": "y" * 100_000}},
        {"toolchain": pb.Toolchain(torch="x" * 100_000)},
    ],
    ids=["job", "many parts", "large parts", "toolchain"],
)
async def test_fields_over_their_bounds(one: Rank, fields: dict[str, Any]) -> None:
    assert await code_of(one.fetch("a" * 64, **fields)) == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_stream_that_does_not_begin_with_open(one: Rank) -> None:
    stream = RankStream(one.stub, "a" * 64)
    await stream.say(chunk=b"x")
    assert await code_of(stream.finish()) == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_graph_whose_digest_is_another(one: Rank) -> None:
    stream = await asked(one)
    await stream.header(GRAPH, sha256=b"\0" * 32)
    await stream.say(chunk=GRAPH)
    assert await code_of(stream.finish()) == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("header", "chunk"),
    [
        ({"size": 0}, None),
        ({"sha256": b"short"}, None),
        ({}, b""),
        ({}, GRAPH + b"more"),
        ({"size": 8 * MIB}, b"x" * (5 * MIB)),
    ],
    ids=["empty graph", "no digest", "empty chunk", "more than announced", "large chunk"],
)
async def test_a_graph_that_is_not_as_announced(one: Rank, header: dict[str, Any], chunk: bytes | None) -> None:
    stream = await asked(one)
    await stream.header(GRAPH, **header)
    if chunk is not None:
        await stream.say(chunk=chunk)
    assert await code_of(stream.finish()) == grpc.StatusCode.INVALID_ARGUMENT


async def test_something_else_than_the_graph(one: Rank) -> None:
    stream = await asked(one)
    await stream.say(chunk=b"x")
    assert await code_of(stream.finish()) == grpc.StatusCode.INVALID_ARGUMENT


async def test_one_bad_upload_does_not_harm_who_joined(one: Rank) -> None:
    graph = json.dumps([["size", 11]]).encode()
    bad = await one.open(key_of(graph))
    await bad.until("send_graph")
    good = await one.open(key_of(graph))
    await good.until("progress")
    await bad.header(graph, sha256=b"\0" * 32)
    await bad.say(chunk=graph)
    assert await code_of(bad.finish()) == grpc.StatusCode.INVALID_ARGUMENT
    assert (await good.finish(graph)).served == pb.SERVED_LED


async def test_too_many_keys_in_one_lookup(one: Rank) -> None:
    limit = (await one.stub.GetCapabilities(pb.GetCapabilitiesRequest())).max_lookup_keys
    await one.stub.Lookup(pb.LookupRequest(keys=["a" * 64] * limit))
    over = pb.LookupRequest(keys=["a" * 64] * (limit + 1))
    assert await code_of(one.stub.Lookup(over)) == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_message_over_the_limit(shared: DaemonProcess) -> None:
    # The blocking client: the other one reports the write that is cut off as an error of its own.
    requests = [
        pb.CompileRequest(open=pb.OpenCompile(client=this_version(), key="a" * 64)),
        pb.CompileRequest(graph=pb.BlobHeader(size=100 * MIB, sha256=b"x" * 32)),
        pb.CompileRequest(chunk=b"x" * (17 * MIB)),
    ]
    with shared.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        list(CompilerServiceStub(channel).Compile(iter(requests), timeout=60))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert shared.healthy()


async def test_a_graph_over_the_limit(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(max_graph_bytes=1000)
    async with rank(daemon.address) as one:
        stream = await asked(one)
        await stream.header(GRAPH, size=1001)
        assert await code_of(stream.finish()) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await one.compile(GRAPH)).artifact


async def test_graphs_that_wait_are_bounded_in_sum(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(max_pending_bytes=2 * MIB)
    async with rank(daemon.address) as one:
        holding = await asked(one)
        await holding.header(b"x" * (2 * MIB))
        second = await one.open("b" * 64)
        await second.until("send_graph")
        await second.header(GRAPH)
        assert await code_of(second.finish()) == grpc.StatusCode.RESOURCE_EXHAUSTED
        holding.cancel()
        await until(lambda: not daemon.status().compiles, "the upload is over")
        assert (await one.compile(GRAPH)).artifact


async def test_a_full_queue(start_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    daemon = start_daemon(max_queue=2)
    async with rank(daemon.address) as one:
        first = await one.open("a" * 64)
        second = await one.open("b" * 64)
        await asyncio.gather(first.until("send_graph"), second.until("send_graph"))
        assert await code_of(one.fetch("c" * 64)) == grpc.StatusCode.RESOURCE_EXHAUSTED
        joiner = await one.open("a" * 64)
        await joiner.until("progress")
        for stream in (first, second, joiner):
            stream.cancel()
        await until(lambda: not daemon.status().compiles, "the queue is empty")
        assert (await one.compile(GRAPH)).artifact


async def test_too_many_waiters(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(max_waiters=2)
    async with rank(daemon.address) as one:
        first = await asked(one)
        second = await one.open("a" * 64)
        await second.until("progress")
        assert await code_of(one.fetch("a" * 64)) == grpc.StatusCode.RESOURCE_EXHAUSTED
        first.cancel()
        second.cancel()


async def test_administration_refuses_what_makes_no_sense(shared: DaemonProcess) -> None:
    async with rank(shared.address) as one:
        stub = admin_pb2_grpc.AdminServiceStub(one.channel)
        invalid: list[Awaitable[Any]] = [
            stub.GetEntry(admin_pb2.GetEntryRequest(key="abc")),
            stub.GetEntry(admin_pb2.GetEntryRequest(key="%" * 10)),
            stub.ListEntries(admin_pb2.ListEntriesRequest(page_size=100_000)),
            stub.ListEntries(admin_pb2.ListEntriesRequest(page_token="x")),
            stub.Shutdown(admin_pb2.ShutdownRequest(drain_seconds=float("nan"))),
            stub.Shutdown(admin_pb2.ShutdownRequest(drain_seconds=-1)),
            stub.WatchStatus(admin_pb2.WatchStatusRequest(interval_seconds=float("inf"))).read(),
            stub.WatchStatus(admin_pb2.WatchStatusRequest(interval_seconds=0.01)).read(),
        ]
        for call in invalid:
            assert await code_of(call) == grpc.StatusCode.INVALID_ARGUMENT
        absent: list[Awaitable[Any]] = [
            stub.GetEntry(admin_pb2.GetEntryRequest(key="abcdef")),
            stub.GetJob(admin_pb2.GetJobRequest(job="none")),
        ]
        for call in absent:
            assert await code_of(call) == grpc.StatusCode.NOT_FOUND
