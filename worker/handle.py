"""One worker process as its pool holds it: start it, give it a graph, end it with all that it spawned.

It decides nothing about how many workers there are or what becomes of a job whose worker was lost: that is the pool's.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import CompileJob, CompileReply, ForkRequest, WorkerReply, WorkerRequest
from inductord.worker import framing, scratch
from inductord.worker.child import ChildProcess
from inductord.worker.forked import ForkedProcess, ForkServer

# What a reply holds beside the artifact: phases, or a traceback of at most 64 KiB.
_REPLY_OVERHEAD_BYTES = 1024 * 1024


class WorkerLost(Exception):
    """The worker died, or can no longer be followed. The message says how it ended."""


class WorkerProcess(ChildProcess):
    """A started worker. Made by ``start``; ``until_ready`` comes first, ``close`` last."""

    kind = "worker"
    _folder: Path
    _limit: int
    toolchain: Toolchain
    """Under what it compiles; known once it is ready."""

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], folder: Path, max_artifact_bytes: int
    ) -> "WorkerProcess":
        """Start ``command`` as a worker in ``folder``, which goes away with it.

        Raises:
            OSError: it cannot be started.
        """
        worker = await cls.spawn(command, ["--max-artifact-bytes", str(max_artifact_bytes)], environment, folder)
        return worker._in(folder, max_artifact_bytes)

    @classmethod
    async def forked(
        cls, server: ForkServer, request: ForkRequest, folder: Path, max_artifact_bytes: int
    ) -> "WorkerProcess":
        """Let ``server`` start one in ``folder``, which goes away with it.

        Raises:
            ServerGone: it cannot.
        """

        async def begin(theirs: socket.socket, output: socket.socket) -> ForkedProcess:
            return await server.fork(request, theirs, output)

        return (await cls.connected(begin))._in(folder, max_artifact_bytes)

    def _in(self, folder: Path, max_artifact_bytes: int) -> "WorkerProcess":
        self._folder = folder
        self._limit = min(max_artifact_bytes + _REPLY_OVERHEAD_BYTES, framing.MAX_FRAME_BYTES)
        return self

    async def until_ready(self) -> None:
        """Wait until it can take a job.

        Raises:
            WorkerLost: it ended or said something else.
        """
        reply = await self._receive()
        if reply.WhichOneof("message") != "ready":
            raise WorkerLost("the worker did not begin with ready")
        self.toolchain = reply.ready.toolchain

    async def run(self, job: CompileJob) -> CompileReply:
        """Give it a job and wait for the reply.

        Raises:
            WorkerLost: it ended before it replied, or the reply makes no sense.
        """
        try:
            await framing.send_frame(self._sock, WorkerRequest(compile=job).SerializeToString())
        except OSError as error:
            raise WorkerLost(f"{type(error).__name__}: {error}") from error
        reply = await self._receive()
        if reply.WhichOneof("message") != "compiled":
            raise WorkerLost("the worker replied with something else than a compile")
        return reply.compiled

    async def close(self) -> None:
        """Kill what is left, and release the connection and the folder. Bounded."""
        await super().close()
        await asyncio.to_thread(scratch.remove, self._folder)

    async def _receive(self) -> WorkerReply:
        try:
            frame = await framing.receive_frame(self._sock, self._limit)
        except OSError as error:
            raise WorkerLost(f"{type(error).__name__}: {error}") from error
        if frame is None:
            raise WorkerLost("the worker closed its connection")
        try:
            return WorkerReply.FromString(bytes(frame))
        except DecodeError as error:
            raise WorkerLost(f"the worker's reply cannot be read: {error}") from error
