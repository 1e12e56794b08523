"""One worker process as the daemon holds it: start it, give it a graph, end it with all that it spawned.

It decides nothing about how many workers there are or what becomes of a job whose worker was lost: that is the pool's.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from inductord.v1.worker_pb2 import CompileJob, CompileReply, WorkerReply, WorkerRequest
from inductord.worker import framing, scratch

_log = logging.getLogger("inductord.pool")
_output_log = logging.getLogger("inductord.worker")

_TAIL_BYTES = 16 * 1024
_LINE_BYTES = 2 * 1024
# What a reply holds beside the artifact: phases, or a traceback of at most 64 KiB.
_REPLY_OVERHEAD_BYTES = 1024 * 1024
# The kernel takes its time over large processes, but not this long.
_REAP_SECONDS = 10.0
# From the end of a connection to the end of its process.
_LINGER_SECONDS = 5.0


class WorkerLost(Exception):
    """The worker died, or can no longer be followed. The message says how it ended."""


class WorkerProcess:
    """A started worker. Made by ``spawn``; ``until_ready`` comes first, ``close`` last."""

    def __init__(
        self, process: asyncio.subprocess.Process, sock: socket.socket, output: socket.socket, folder: Path, limit: int
    ) -> None:
        self.pid = process.pid
        """Of the supervisor, and so of the process group."""
        self._process = process
        self._sock = sock
        self._folder = folder
        self._limit = limit
        self._tail = bytearray()
        self._group_killed = False
        self._ended = asyncio.create_task(self._until_ended(), name=f"worker {self.pid} ends")
        self._output = asyncio.create_task(self._read_output(output), name=f"worker {self.pid} output")

    @classmethod
    async def spawn(
        cls, command: Sequence[str], environment: Mapping[str, str], folder: Path, max_artifact_bytes: int
    ) -> "WorkerProcess":
        """Start ``command`` as a worker in ``folder``, which goes away with it.

        Raises:
            OSError: it cannot be started.
        """
        limit = min(max_artifact_bytes + _REPLY_OVERHEAD_BYTES, framing.MAX_FRAME_BYTES)
        ours, theirs = socket.socketpair()
        # Not a pipe of asyncio's: a process that a compile left behind could hold it open, and waiting for the
        # worker's end would wait for that one.
        our_output, their_output = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                *("--fd", str(theirs.fileno())),
                *("--max-artifact-bytes", str(max_artifact_bytes)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=their_output.fileno(),
                stderr=their_output.fileno(),
                pass_fds=(theirs.fileno(),),
                # Its own session: what it spawns is ended with it, and a Ctrl-C in the terminal is not for it.
                start_new_session=True,
                env=environment,
                cwd=folder,
            )
        except BaseException:
            ours.close()
            our_output.close()
            raise
        finally:
            theirs.close()
            their_output.close()
        ours.setblocking(False)
        our_output.setblocking(False)
        return cls(process, ours, our_output, folder, limit)

    async def until_ready(self) -> None:
        """Wait until it can take a job.

        Raises:
            WorkerLost: it ended or said something else.
        """
        reply = await self._receive()
        if reply.WhichOneof("message") != "ready":
            raise WorkerLost("the worker did not begin with ready")

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

    def terminate(self) -> None:
        """Ask the whole group to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole group now. Does not wait."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._group_killed:  # Its number may be another's by now.
            return
        with contextlib.suppress(ProcessLookupError):  # All of it has ended, which is what was wanted.
            os.killpg(self.pid, number)

    async def close(self) -> None:
        """Kill what is left, and release the connection and the folder. Bounded."""
        self.kill()
        _, running = await asyncio.wait({self._ended, self._output}, timeout=_REAP_SECONDS)
        if running:
            _log.warning("worker %d has not ended %g s after SIGKILL; it is left behind", self.pid, _REAP_SECONDS)
        self._output.cancel()
        self._sock.close()
        await asyncio.to_thread(scratch.remove, self._folder)

    async def until_ended(self) -> None:
        """Wait for a worker whose connection broke: it is about to end, or is killed for it. Bounded."""
        _, running = await asyncio.wait({self._ended}, timeout=_LINGER_SECONDS)
        if running:
            self.kill()
        # What it said last may still be on its way.
        await asyncio.wait({self._ended, self._output}, timeout=_REAP_SECONDS)

    @property
    def name(self) -> str:
        """For the log."""
        return f"worker {self.pid}"

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when the process has ended. Its group is then killed too."""
        return self._ended

    @property
    def alive(self) -> bool:
        """False once its end is known."""
        return self._process.returncode is None

    @property
    def returncode(self) -> int | None:
        """As ``subprocess`` has it; None while it runs."""
        return self._process.returncode

    @property
    def tail(self) -> str:
        """The end of what it wrote to stdout and stderr, at most 16 KiB."""
        return self._tail.decode(errors="replace").strip()

    async def _until_ended(self) -> None:
        await self._process.wait()
        # What it spawned would run on for nobody, and hold connection and output open.
        self.kill()
        self._group_killed = True

    async def _read_output(self, output: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=output)
        begun = b""
        try:
            while chunk := await reader.read(_TAIL_BYTES):
                self._tail += chunk
                del self._tail[:-_TAIL_BYTES]
                *lines, begun = (begun + chunk).split(b"\n")
                begun = begun[:_LINE_BYTES]
                for line in lines:
                    _output_log.debug("%d: %s", self.pid, line[:_LINE_BYTES].decode(errors="replace"))
        finally:
            writer.close()
