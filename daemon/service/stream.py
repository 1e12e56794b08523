"""One client's Compile stream, with every read and write bounded in time. Knows the order of messages, decides nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from inductord.daemon.blobs import Incoming, Lent, Outgoing
from inductord.daemon.errors import GaveUp, InvalidRequest
from inductord.v1.compiler_pb2 import (
    SERVED_UNSPECIFIED,
    Artifact,
    BlobHeader,
    Compiled,
    CompileFailure,
    CompileRequest,
    CompileResponse,
    CompileState,
    OpenCompile,
    Progress,
    SendGraph,
    Served,
)

_SEND_GRAPH = {
    measures: CompileResponse(send_graph=SendGraph(worker_measures=measures)).SerializeToString()
    for measures in (False, True)
}


class GraphUnavailable(Exception):
    """The client was asked for the graph and cannot give it, for the reason in its own words."""


class CompileStream:
    """``stall_seconds``: longest silence of a client that has to say something, and of one that has to read something.

    ``served``: how the client was served, once the artifact is on its way to it.
    """

    def __init__(
        self,
        requests: AsyncIterator[CompileRequest],
        context: grpc.aio.ServicerContext[Any, Any],
        stall_seconds: float,
    ) -> None:
        self._requests = requests
        self._context = context
        self._stall_seconds = stall_seconds
        self.served = SERVED_UNSPECIFIED

    async def opening(self) -> OpenCompile:
        """The first message.

        Raises:
            InvalidRequest: it is something else.
            GaveUp: it does not come in time.
        """
        message = await self._read()
        if message.WhichOneof("message") != "open":
            raise InvalidRequest("the first message has to be `open`.")
        return message.open

    async def graph_header(self) -> BlobHeader | None:
        """The answer to ``ask_graph``; None when the client compiles the graph itself.

        Raises:
            GraphUnavailable: the client cannot give the graph.
            InvalidRequest: something else came.
            GaveUp: nothing comes in time.
        """
        message = await self._read()
        match message.WhichOneof("message"):
            case "graph":
                return message.graph
            case "compiles_here":
                return None
            case "refused":
                raise GraphUnavailable(message.refused.message[:1000])
            case other:
                raise InvalidRequest(f"`graph`, `compiles_here` or `refused` has to follow `send_graph`, not {other}.")

    async def compiled(self, seconds: float) -> Compiled:
        """What a client says when it has compiled the graph itself, for which it has so many seconds.

        Raises:
            GraphUnavailable: it could not.
            InvalidRequest: something else came.
            GaveUp: nothing comes in time.
        """
        message = await self._read(seconds)
        match message.WhichOneof("message"):
            case "compiled":
                return message.compiled
            case "refused":
                raise GraphUnavailable(message.refused.message[:1000])
            case other:
                raise InvalidRequest(f"`compiled` or `refused` has to follow `compiles_here`, not {other}.")

    async def graph(self, header: BlobHeader) -> bytes:
        """The bytes that ``header`` announced, verified.

        Raises:
            InvalidRequest: they are not what was announced.
            GaveUp: they do not come in time.
        """
        incoming = Incoming(header)
        while not incoming.complete:
            message = await self._read()
            if message.WhichOneof("message") != "chunk":
                raise InvalidRequest("the chunks of the graph have to follow its header.")
            incoming.add(message.chunk)
        return await incoming.finish()

    async def ask_graph(self, worker_measures: bool = False) -> None:
        """Ask the client for the graph. ``worker_measures``: see ``SendGraph``."""
        await self._write(_SEND_GRAPH[worker_measures])

    async def progress(self, state: CompileState, elapsed: float, ahead: int) -> None:
        """Say where the compile stands; also the heartbeat."""
        await self._write(CompileResponse(progress=Progress(state=state, elapsed_seconds=elapsed, ahead=ahead)))

    async def failure(self, failure: CompileFailure) -> None:
        """The last message: there is no artifact."""
        await self._write(CompileResponse(failure=failure))

    async def lend(self, artifact: Lent, served: Served) -> bool:
        """Offer the artifact as a file. True when the client has it, and the stream is over.

        Raises:
            InvalidRequest: the client says something else than it may.
            GaveUp: it says nothing in time.
        """
        offer = Artifact(
            blob=artifact.header, served=served, compile_seconds=artifact.compile_seconds, path=artifact.path
        )
        await self._write(CompileResponse(artifact=offer))
        self.served = served
        message = await self._read_or_end(self._stall_seconds)
        if message is None:
            return True
        if message.WhichOneof("message") != "send_artifact":
            raise InvalidRequest("`send_artifact` or the end has to follow an offered file.")
        return False

    async def artifact(self, artifact: Outgoing, served: Served) -> None:
        """The last messages: the artifact."""
        header = Artifact(blob=artifact.header, served=served, compile_seconds=artifact.compile_seconds)
        await self._write(CompileResponse(artifact=header))
        self.served = served
        for index in range(len(artifact)):
            await self._write(artifact.chunk(index))

    async def _read(self, seconds: float | None = None) -> CompileRequest:
        message = await self._read_or_end(seconds or self._stall_seconds)
        if message is None:
            raise InvalidRequest("the client ended its side of the stream before it said all it had to.")
        return message

    async def _read_or_end(self, seconds: float) -> CompileRequest | None:
        try:
            async with asyncio.timeout(seconds):
                return await anext(self._requests)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            raise GaveUp(f"nothing came from the client for {seconds:g} s.") from None

    async def _write(self, message: CompileResponse | bytes) -> None:
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self._context.write(message)
        except TimeoutError:
            raise GaveUp(f"the client read nothing for {self._stall_seconds:g} s.") from None
