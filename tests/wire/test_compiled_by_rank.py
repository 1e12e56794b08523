"""Graphs that only a rank with the device can compile: one compiles for all, whoever it is in the end."""

import asyncio
import hashlib

import pytest
from support.daemon import DaemonProcess
from support.pools import script
from support.rank import CHUNK, Rank, RankStream, key_of, rank

from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire

KEY = hashlib.sha256(b"a graph with kernels to measure").hexdigest()
ARTIFACT = b"artifact " * 300_000


async def lead(ranks: Rank) -> RankStream:
    """A rank that is asked for the graph, and says that it compiles it by itself."""
    stream = await ranks.open(KEY)
    await stream.until("send_graph")
    await stream.say(compiles_here=pb.CompilesHere())
    return stream


async def give(stream: RankStream, artifact: bytes, seconds: float = 12.5) -> None:
    """What a rank says when it has compiled a graph by itself."""
    header = pb.BlobHeader(size=len(artifact), sha256=hashlib.sha256(artifact).digest())
    await stream.say(compiled=pb.Compiled(blob=header, compile_seconds=seconds))
    for start in range(0, len(artifact), CHUNK):
        await stream.say(chunk=artifact[start : start + CHUNK])


async def test_one_rank_compiles_and_all_get_what_it_made(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as ranks:
        leading = await lead(ranks)
        joining = [await ranks.open(KEY) for _ in range(3)]
        for stream in joining:
            await stream.until_state(pb.COMPILE_STATE_UPLOADING)
        await give(leading, ARTIFACT)
        answers = await asyncio.gather(leading.finish(), *(stream.finish() for stream in joining))
        later = await ranks.fetch(KEY)
    assert [answer.served for answer in answers] == [pb.SERVED_LED, *[pb.SERVED_JOINED] * 3]
    assert {answer.artifact for answer in answers} == {ARTIFACT}
    assert (later.served, later.artifact) == (pb.SERVED_HIT, ARTIFACT)
    totals = daemon.status().totals
    assert (totals.compiles, totals.led, totals.joined, totals.hits) == (1, 1, 3, 1)
    assert totals.compile_seconds == 12.5


async def test_the_next_rank_compiles_when_the_first_dies(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as ranks:
        leading = await lead(ranks)
        joining = await ranks.open(KEY)
        await joining.until_state(pb.COMPILE_STATE_UPLOADING)
        leading.cancel()
        await joining.until("send_graph")
        await joining.say(compiles_here=pb.CompilesHere())
        await give(joining, ARTIFACT)
        answer = await joining.finish()
    assert (answer.served, answer.artifact) == (pb.SERVED_LED, ARTIFACT)


async def test_the_next_rank_compiles_when_the_first_dies_half_way_through_its_upload(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as ranks:
        leading = await lead(ranks)
        joining = [await ranks.open(KEY) for _ in range(2)]
        for stream in joining:
            await stream.until_state(pb.COMPILE_STATE_UPLOADING)
        header = pb.BlobHeader(size=len(ARTIFACT), sha256=hashlib.sha256(ARTIFACT).digest())
        await leading.say(compiled=pb.Compiled(blob=header, compile_seconds=12.5))
        await leading.say(chunk=ARTIFACT[:CHUNK])
        leading.cancel()
        await joining[0].until("send_graph")
        states = await ranks.stub.Lookup(pb.LookupRequest(keys=[KEY]))
        await joining[0].say(compiles_here=pb.CompilesHere())
        await give(joining[0], ARTIFACT)
        answers = [await stream.finish() for stream in joining]
    assert list(states.states) == [pb.KEY_STATE_COMPILING], "half an artifact is none"
    assert [answer.served for answer in answers] == [pb.SERVED_LED, pb.SERVED_JOINED]
    assert {answer.artifact for answer in answers} == {ARTIFACT}
    assert daemon.status().totals.compiles == 1


async def test_the_next_rank_compiles_when_the_first_cannot(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as ranks:
        leading = await lead(ranks)
        joining = await ranks.open(KEY)
        await joining.until_state(pb.COMPILE_STATE_UPLOADING)
        await leading.say(refused=pb.GraphRefused(message="out of memory"))
        failed = await leading.finish()
        await joining.until("send_graph")
        await joining.say(compiles_here=pb.CompilesHere())
        await give(joining, ARTIFACT)
        answer = await joining.finish()
    assert failed.failure is not None
    assert "out of memory" in failed.failure.message
    assert answer.artifact == ARTIFACT


async def test_a_rank_compiles_what_the_pool_has_no_device_for(daemon: DaemonProcess) -> None:
    graph = script(["fail", "no device", pb.FAILURE_KIND_UNLOADABLE])
    key = key_of(graph)
    async with rank(daemon.address) as ranks:
        leading = await ranks.open(key, needs_device=True)
        await leading.until("send_graph")
        assert not leading.answer.worker_measures
        # A worker that was tried all the same fails, and the rank that waits longest is asked once more.
        await leading.upload(graph)
        await leading.until_state(pb.COMPILE_STATE_COMPILING)
        joining = await ranks.open(key, needs_device=True)
        await leading.until("send_graph")
        await leading.say(compiles_here=pb.CompilesHere())
        await give(leading, ARTIFACT)
        answers = [await stream.finish() for stream in (leading, joining)]
    assert [answer.artifact for answer in answers] == [ARTIFACT] * 2
    assert [answer.asked for answer in answers] == [2, 0]
    # Nothing of the failure is remembered; it is counted.
    totals = daemon.status().totals
    assert (totals.compiles, totals.failures, totals.led, totals.joined) == (2, 1, 1, 1)
    assert daemon.status().pool.devices == 0


async def test_bytes_that_are_not_what_was_announced_are_not_kept(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as ranks:
        leading = await lead(ranks)
        header = pb.BlobHeader(size=5, sha256=hashlib.sha256(b"other").digest())
        await leading.say(compiled=pb.Compiled(blob=header))
        await leading.say(chunk=b"bytes")
        with pytest.raises(Exception, match="INVALID_ARGUMENT"):
            await leading.finish()
        states = await ranks.stub.Lookup(pb.LookupRequest(keys=[KEY]))
    assert list(states.states) == [pb.KEY_STATE_ABSENT]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
async def test_a_time_that_is_none_is_refused(daemon: DaemonProcess, seconds: float) -> None:
    async with rank(daemon.address) as ranks:
        leading = await lead(ranks)
        header = pb.BlobHeader(size=len(ARTIFACT), sha256=hashlib.sha256(ARTIFACT).digest())
        await leading.say(compiled=pb.Compiled(blob=header, compile_seconds=seconds))
        with pytest.raises(Exception, match="INVALID_ARGUMENT"):
            await leading.finish()
        states = await ranks.stub.Lookup(pb.LookupRequest(keys=[KEY]))
    assert list(states.states) == [pb.KEY_STATE_ABSENT]
