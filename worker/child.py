"""A child process in a session of its own: what it writes is kept and logged, and it is ended with all that it spawned."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

_log = logging.getLogger("inductord.pool")
_output_log = logging.getLogger("inductord.worker")

_TAIL_BYTES = 16 * 1024
_LINE_BYTES = 2 * 1024
# The kernel takes its time over large processes, but not this long.
_REAP_SECONDS = 10.0
# From the end of a connection to the end of its process.
_LINGER_SECONDS = 5.0


class Process(Protocol):
    """What is needed of a started process. Asyncio's is one."""

    @property
    def pid(self) -> int:
        """Also of the process group that it leads."""

    @property
    def returncode(self) -> int | None:
        """As ``subprocess`` has it; None while it runs."""

    async def wait(self) -> int:
        """Until it has ended."""


Begin = Callable[[socket.socket, socket.socket], Awaitable[Process]]
"""Starts a process with its end of a connection, and with what it writes its output to."""


class ChildProcess:
    """A started process that is spoken to over a socket. ``spawn`` makes it, ``close`` comes last."""

    kind = "child"

    def __init__(self, process: Process, sock: socket.socket, output: socket.socket) -> None:
        self.pid = process.pid
        """Also of the process group."""
        self._process = process
        self._sock = sock
        self._tail = bytearray()
        self._group_killed = False
        self._ended = asyncio.create_task(self._until_ended(), name=f"{self.name} ends")
        self._output = asyncio.create_task(self._read_output(output), name=f"{self.name} output")

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str],
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        messages: socket.SocketKind = socket.SOCK_STREAM,
    ) -> Self:
        """Start ``command`` with ``--fd N``, its end of the socket pair, and ``arguments`` added.

        Raises:
            OSError: it cannot be started.
        """

        async def begin(theirs: socket.socket, output: socket.socket) -> Process:
            return await asyncio.create_subprocess_exec(
                *command,
                *("--fd", str(theirs.fileno())),
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.fileno(),
                stderr=output.fileno(),
                pass_fds=(theirs.fileno(),),
                # Its own session: what it spawns is ended with it, and a Ctrl-C in the terminal is not for it.
                start_new_session=True,
                env=environment,
                cwd=cwd,
            )

        return await cls.connected(begin, messages)

    @classmethod
    async def connected(cls, begin: Begin, messages: socket.SocketKind = socket.SOCK_STREAM) -> Self:
        """The process that ``begin`` starts, spoken to in ``messages``. Raises what ``begin`` raises."""
        ours, theirs = socket.socketpair(type=messages)
        # Not a pipe of asyncio's: a process that was left behind could hold it open, and waiting for the child's end would
        # wait for that one.
        our_output, their_output = socket.socketpair()
        try:
            process = await begin(theirs, their_output)
        except BaseException:
            ours.close()
            our_output.close()
            raise
        finally:
            theirs.close()
            their_output.close()
        ours.setblocking(False)
        our_output.setblocking(False)
        return cls(process, ours, our_output)

    @property
    def name(self) -> str:
        """For the log."""
        return f"{self.kind} {self.pid}"

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

    def hang_up(self) -> None:
        """Close our side of the connection: a child that is spoken to ends by itself then."""
        with contextlib.suppress(OSError):  # It has closed its own.
            self._sock.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """Kill what is left, and release the connection. Bounded."""
        self.kill()
        _, running = await asyncio.wait({self._ended, self._output}, timeout=_REAP_SECONDS)
        if running:
            _log.warning("%s has not ended %g s after SIGKILL; it is left behind", self.name, _REAP_SECONDS)
        self._output.cancel()
        self._sock.close()

    async def until_ended(self) -> None:
        """Wait for a process whose connection broke: it is about to end, or is killed for it. Bounded."""
        _, running = await asyncio.wait({self._ended}, timeout=_LINGER_SECONDS)
        if running:
            self.kill()
        # What it said last may still be on its way.
        await asyncio.wait({self._ended, self._output}, timeout=_REAP_SECONDS)

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
