"""A client of the compile service that tests drive step by step: what a rank says on the wire, without torch."""

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from support.daemon import CHANNEL_OPTIONS
from support.pools import DEADLINE_S

from inductord.compiler.versions import this_version
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

CHUNK = 1 << 20


def key_of(graph: bytes) -> str:
    """A key for a scripted graph."""
    return hashlib.sha256(graph).hexdigest()


@dataclasses.dataclass
class Answer:
    """How one Compile stream ended. ``asked``: how often it was asked for the graph. ``worker_measures``: what was said about
    that the last time."""

    asked: int = 0
    worker_measures: bool = False
    states: list[int] = dataclasses.field(default_factory=list)
    served: int = pb.SERVED_UNSPECIFIED
    artifact: bytes = b""
    digest: bytes = b""
    failure: pb.CompileFailure | None = None


class RankStream:
    """One Compile stream."""

    def __init__(self, stub: CompilerServiceStub, key: str, **fields: Any) -> None:
        self._call = stub.Compile(metadata=fields.pop("metadata", None))
        self._opening = pb.OpenCompile(
            client=fields.pop("client", this_version()),
            key=key,
            kind=fields.pop("kind", pb.GRAPH_KIND_FORWARD),
            requester=fields.pop("requester", pb.Requester(job="job", rank=0, world_size=1, pid=1)),
            **fields,
        )
        self.answer = Answer()
        self.offer = pb.Artifact()

    async def open(self) -> None:
        """Send the first message."""
        await self.say(open=self._opening)

    async def say(self, **message: Any) -> None:
        """Send one message."""
        await asyncio.wait_for(self._call.write(pb.CompileRequest(**message)), DEADLINE_S)

    async def hear(self) -> str | None:
        """Take one message into ``answer``. Returns its kind, or None at the good end of the stream; a bad one raises."""
        message = await asyncio.wait_for(self._call.read(), DEADLINE_S)
        if message is grpc.aio.EOF:
            return None
        kind: str = message.WhichOneof("message")
        match kind:
            case "send_graph":
                self.answer.asked += 1
                self.answer.worker_measures = message.send_graph.worker_measures
            case "progress":
                self.answer.states.append(message.progress.state)
            case "artifact":
                self.offer = message.artifact
                self.answer.served = message.artifact.served
                self.answer.digest = message.artifact.blob.sha256
            case "chunk":
                self.answer.artifact += message.chunk
            case "failure":
                self.answer.failure = message.failure
        return kind

    async def until(self, kind: str) -> None:
        """Take messages until one of this kind came."""
        while (heard := await self.hear()) != kind:
            assert heard is not None, f"the stream ended before {kind}"

    async def until_state(self, state: int) -> None:
        """Take messages until the compile is in this state."""
        while state not in self.answer.states:
            assert await self.hear() is not None, "the stream ended"

    async def header(self, graph: bytes, **changes: Any) -> None:
        """Announce the graph."""
        fields = {"size": len(graph), "sha256": hashlib.sha256(graph).digest()} | changes
        await self.say(graph=pb.BlobHeader(**fields))

    async def upload(self, graph: bytes) -> None:
        """Send the graph."""
        await self.header(graph)
        for start in range(0, len(graph), CHUNK):
            await self.say(chunk=graph[start : start + CHUNK])

    async def done(self) -> None:
        """End this side of the stream."""
        await asyncio.wait_for(self._call.done_writing(), DEADLINE_S)

    async def finish(self, graph: bytes | None = None) -> Answer:
        """Go on to the end, giving the graph when asked."""
        while (kind := await self.hear()) is not None:
            if kind == "send_graph":
                assert graph is not None, "asked for a graph that should be there"
                await self.upload(graph)
        if self.answer.artifact:
            assert hashlib.sha256(self.answer.artifact).digest() == self.answer.digest
        return self.answer

    def cancel(self) -> None:
        """End the stream from here."""
        self._call.cancel()


class Rank:
    """A connection of one rank."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.stub = CompilerServiceStub(channel)

    async def open(self, key: str, **fields: Any) -> RankStream:
        """An opened stream."""
        stream = RankStream(self.stub, key, **fields)
        await stream.open()
        return stream

    async def compile(self, graph: bytes, **fields: Any) -> Answer:
        """One graph from lookup to artifact, under its own key."""
        return await (await self.open(fields.pop("key", key_of(graph)), **fields)).finish(graph)

    async def fetch(self, key: str, **fields: Any) -> Answer:
        """An artifact that has to be there, or come from somebody else's compile."""
        return await (await self.open(key, **fields)).finish()


@contextlib.asynccontextmanager
async def rank(address: str) -> AsyncIterator[Rank]:
    """A rank with a channel of its own."""
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield Rank(channel)
