"""Artifacts offered as files to clients that share the daemon's file system, and what happens when they are no use."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from support.daemon import DaemonProcess
from support.pools import script
from support.rank import Rank, RankStream, key_of, rank
from support.scrape import nonzero
from workers.scripted import artifact_of

from inductord.compiler.client import Client
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire

SIZE = 2_000_000
GRAPH = script(["size", SIZE])
ARTIFACT = artifact_of(GRAPH, SIZE)


async def offered(one: Rank, graph: bytes = GRAPH) -> tuple[RankStream, Path]:
    """A stream on which a file was offered."""
    stream = await one.open(key_of(graph), reads_files=True)
    while (kind := await stream.hear()) != "artifact":
        assert kind is not None
        if kind == "send_graph":
            await stream.upload(graph)
    return stream, Path(stream.offer.path)


async def test_a_file_is_offered_to_who_reads_files_and_to_nobody_else(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        stream, path = await offered(one)
        assert stream.answer.served == pb.SERVED_LED
        assert path.read_bytes() == ARTIFACT
        assert stream.answer.digest == hashlib.sha256(ARTIFACT).digest()
        await stream.done()
        assert await stream.hear() is None
        stream, path = await offered(one)
        assert stream.answer.served == pb.SERVED_HIT
        await stream.done()
        assert await stream.hear() is None
        sent = await one.fetch(key_of(GRAPH))
        assert sent.artifact == ARTIFACT
    totals = daemon.status().totals
    assert (totals.led, totals.hits, totals.compiles) == (1, 2, 1)


async def test_who_cannot_read_the_file_is_sent_the_bytes(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        for served in (pb.SERVED_LED, pb.SERVED_HIT):
            stream, _ = await offered(one)
            await stream.say(send_artifact=pb.SendArtifact())
            answer = await stream.finish()
            assert (answer.served, answer.artifact) == (served, ARTIFACT)
    totals = daemon.status().totals
    assert (totals.led, totals.hits, totals.compiles) == (1, 1, 1)


async def test_a_file_found_corrupt_by_the_client_is_quarantined_and_compiled_anew(
    start_daemon: Callable[..., DaemonProcess],
) -> None:
    # Without a memory tier there is no sound copy left.
    daemon = start_daemon(memory_bytes=0)
    async with rank(daemon.address) as one:
        stream, path = await offered(one)
        await stream.done()
        assert await stream.hear() is None
        path.write_bytes(b"x" * SIZE)
        stream, again = await offered(one)
        assert again == path
        await stream.say(send_artifact=pb.SendArtifact())
        answer = await stream.finish(GRAPH)
        assert (answer.asked, answer.served, answer.artifact) == (1, pb.SERVED_LED, ARTIFACT)
    assert daemon.status().store.quarantined == 1


async def test_something_else_after_an_offer_is_refused(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        stream, _ = await offered(one)
        await stream.say(chunk=b"what")
        with pytest.raises(grpc.RpcError) as refused:
            await stream.finish()
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_the_ranks_client_takes_the_file(daemon: DaemonProcess) -> None:
    client = Client(daemon.address)
    for served in (pb.SERVED_LED, pb.SERVED_HIT):
        request = pb.OpenCompile(client=client.capabilities().daemon, key=key_of(GRAPH))
        received = client.compile(request, lambda: GRAPH, lambda _: None, 60.0)
        assert (received.served, received.artifact) == (served, ARTIFACT)
    client.close()
    assert nonzero(daemon, "inductord_store_reads_total") == {"lent": 2}


def test_the_ranks_client_outside_the_daemons_file_system(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(daemon.address)

    def absent(path: str, *_: object) -> int:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "open", absent)
    for served in (pb.SERVED_LED, pb.SERVED_HIT):
        request = pb.OpenCompile(client=client.capabilities().daemon, key=key_of(GRAPH))
        received = client.compile(request, lambda: GRAPH, lambda _: None, 60.0)
        assert (received.served, received.artifact) == (served, ARTIFACT)
    client.close()
