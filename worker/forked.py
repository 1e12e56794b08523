"""The daemon's side of the fork server: one process that has imported PyTorch, and the workers that are forks of it."""

import asyncio
import collections
import dataclasses
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from inductord.v1.worker_pb2 import ForkReply, ForkRequest
from inductord.worker import scratch
from inductord.worker.child import ChildProcess
from inductord.worker.fork_server import MAX_MESSAGE_BYTES


class ServerGone(Exception):
    """The fork server ended, or can no longer be followed. The message says how."""


class Declined(Exception):
    """What the fork server imported must not be forked. The message says why. It has ended."""


@dataclasses.dataclass(slots=True)
class ForkedProcess:
    """A process whose end the fork server tells. Implements ``child.Process``."""

    pid: int
    returncode: int | None = None
    over: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    async def wait(self) -> int:
        """Until it has ended."""
        await self.over.wait()
        assert self.returncode is not None
        return self.returncode

    def end(self, returncode: int) -> None:
        """It has ended."""
        self.returncode = returncode
        self.over.set()


class ForkServer(ChildProcess):
    """A started fork server. Made by ``start``; ``until_ready`` comes first, ``close`` last."""

    kind = "fork server"
    folder: Path
    environment: Mapping[str, str]
    """What its forks begin with."""
    _listening: asyncio.Task[None]
    _asked: collections.deque[asyncio.Future[ForkedProcess]]
    _running: dict[int, ForkedProcess]

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        linger: float,
    ) -> "ForkServer":
        """Start ``command`` as a fork server in ``folder``, which goes away with it. It ends by itself after ``linger``
        seconds without a worker.

        Raises:
            OSError: it cannot be started.
        """
        arguments = [*arguments, "--fork-server", str(linger)]
        server = await cls.spawn(command, arguments, environment, folder, socket.SOCK_SEQPACKET)
        server.folder, server.environment = folder, environment
        server._asked = collections.deque()
        server._running = {}
        return server

    async def until_ready(self) -> None:
        """Wait until it can be forked.

        Raises:
            ServerGone: it ended or said something else.
            Declined: it must not be forked.
        """
        reply = await self._receive()
        match reply.WhichOneof("message"):
            case "ready":
                self._listening = asyncio.create_task(self._listen(), name=f"{self.name} listens")
            case "declined":
                raise Declined(reply.declined)
            case _:
                raise ServerGone("it did not begin with ready")

    @property
    def serving(self) -> bool:
        """Whether it can be asked for a worker."""
        return not self._listening.done()

    async def fork(self, request: ForkRequest, sock: socket.socket, output: socket.socket) -> ForkedProcess:
        """Start a worker that serves ``sock`` and writes to ``output``.

        Raises:
            ServerGone: the server ended, or cannot fork.
        """
        if not self.serving:
            raise ServerGone("it has ended")
        asked: asyncio.Future[ForkedProcess] = asyncio.get_running_loop().create_future()
        try:
            socket.send_fds(self._sock, [request.SerializeToString()], [sock.fileno(), output.fileno()])
        except OSError as error:
            raise ServerGone(f"{type(error).__name__}: {error}") from error
        self._asked.append(asked)
        return await asked

    async def close(self) -> None:
        """End it and its workers, and release the connection and the folder. Bounded."""
        await super().close()
        await asyncio.to_thread(scratch.remove, self.folder)

    async def _listen(self) -> None:
        why = "it has ended"
        try:
            while True:
                self._heed(await self._receive())
        except ServerGone as error:
            why = str(error)
        finally:
            # A frozen or broken server tells no ends: its workers end with it.
            self.kill()
            for asked in self._asked:
                if not asked.done():
                    asked.set_exception(ServerGone(why))
            for process in self._running.values():
                process.end(-signal.SIGKILL)

    def _heed(self, reply: ForkReply) -> None:
        match reply.WhichOneof("message"):
            case "started":
                asked = self._asked.popleft()
                process = self._running[reply.started] = ForkedProcess(reply.started)
                if not asked.done():
                    asked.set_result(process)
            case "failed":
                asked = self._asked.popleft()
                if not asked.done():
                    asked.set_exception(ServerGone(f"it cannot fork: {reply.failed}"))
            case "ended":
                self._running.pop(reply.ended.pid).end(reply.ended.returncode)

    async def _receive(self) -> ForkReply:
        try:
            packet = await asyncio.get_running_loop().sock_recv(self._sock, MAX_MESSAGE_BYTES)
        except OSError as error:
            raise ServerGone(f"{type(error).__name__}: {error}") from error
        if not packet:
            raise ServerGone("it closed its connection")
        try:
            return ForkReply.FromString(packet)
        except DecodeError as error:
            raise ServerGone(f"what it says cannot be read: {error}") from error
