"""Starts the workers of a local pool, each in a folder and an environment of its own: as forks of one process that has imported
PyTorch, or as fresh processes where that must not be forked."""

import asyncio
import dataclasses
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from inductord.v1.worker_pb2 import ForkRequest
from inductord.worker import scratch
from inductord.worker.child import ChildProcess
from inductord.worker.crew import StartFailed
from inductord.worker.environment import worker_environment
from inductord.worker.failures import describe_end
from inductord.worker.forked import Declined, ForkServer, ServerGone
from inductord.worker.handle import WorkerLost, WorkerProcess
from inductord.worker.prepared import Prepared

_log = logging.getLogger("inductord.pool")

ProcessT = TypeVar("ProcessT", WorkerProcess, ForkServer)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How workers are started. ``environment`` has the last word over what the pool sets; ``start_timeout`` in seconds.

    ``forks``: by fork, from a server that ends after ``linger`` seconds without a worker.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    max_artifact_bytes: int
    start_timeout: float
    forks: bool
    linger: float


class Recruiter:
    """Starts workers, side by side if need be. ``close`` comes last, when they have ended."""

    def __init__(self, recipe: Recipe, folders: scratch.Scratch, prepared: Prepared) -> None:
        self._recipe = recipe
        self._folders = folders
        self._prepared = prepared
        self._forks = recipe.forks
        self._server: ForkServer | None = None
        self._server_starts: asyncio.Task[ForkServer] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> WorkerProcess:
        """Start a worker and wait until it is ready.

        Raises:
            StartFailed: it did not become so.
        """
        return await self._begun(self._worker)

    async def close(self) -> None:
        """End the fork server. Bounded."""
        if self._server_starts is not None:
            self._server_starts.cancel()
            await asyncio.wait({self._server_starts})
        if self._server is not None:
            self._server.kill()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _begun(self, begin: Callable[[Path, Mapping[str, str]], Awaitable[ProcessT]]) -> ProcessT:
        """What ``begin`` starts in a folder and an environment of its own, once it is ready. Raises ``StartFailed``, and
        ``Declined`` for a server."""
        folder, environment = await self._place()
        try:
            process = await begin(folder, environment)
        except OSError as error:
            await asyncio.to_thread(scratch.remove, folder)
            raise StartFailed(f"{self._recipe.command[0]} cannot be run: {error}") from error
        except BaseException:
            scratch.remove(folder)
            raise
        await self._until_ready(process)
        await asyncio.to_thread(self._prepared.take, folder)
        return process

    async def _worker(self, folder: Path, environment: Mapping[str, str]) -> WorkerProcess:
        return await self._forked(folder, environment) or await WorkerProcess.start(
            self._recipe.command, environment, folder, self._recipe.max_artifact_bytes
        )

    async def _place(self) -> tuple[Path, dict[str, str]]:
        """Raises ``StartFailed``."""
        try:
            folder = self._folders.for_worker()
        except OSError as error:
            raise StartFailed(f"a worker's folder cannot be made: {error}") from error
        await asyncio.to_thread(self._prepared.give, folder)
        return folder, worker_environment(os.environ, folder, self._recipe.environment)

    async def _forked(self, folder: Path, environment: Mapping[str, str]) -> WorkerProcess | None:
        """None where workers are not forked. Raises ``StartFailed``."""
        gone = ""
        while self._forks:
            try:
                server = await self._serving()
                # Only what is its own: a whole environment may be too large for a message.
                own = {name: value for name, value in environment.items() if server.environment.get(name) != value}
                return await self._fork(server, ForkRequest(folder=str(folder), environment=own), folder)
            except Declined as why:
                self._forks = False
                _log.warning(
                    "workers are started as fresh processes, which takes seconds each: a fork is not safe, %s", why
                )
            except ServerGone as error:
                if gone:
                    raise StartFailed(f"The fork server of the workers is gone: {error}") from error
                gone = str(error)  # Such as one that ended while it was idle: another is started, once.
        return None

    async def _fork(self, server: ForkServer, request: ForkRequest, folder: Path) -> WorkerProcess:
        try:
            async with asyncio.timeout(self._recipe.start_timeout):
                return await WorkerProcess.forked(server, request, folder, self._recipe.max_artifact_bytes)
        except TimeoutError as error:
            server.kill()
            raise ServerGone(f"it started none within {self._recipe.start_timeout:g} s (start_timeout)") from error

    async def _serving(self) -> ForkServer:
        if self._server is not None and self._server.serving:
            return self._server
        if self._server_starts is None or self._server_starts.done():
            self._server_starts = asyncio.create_task(self._start_server(), name="fork server starts")
            # Those who wait may all have gone.
            self._server_starts.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._server_starts)

    async def _start_server(self) -> ForkServer:
        server = await self._begun(self._new_server)
        self._server = server
        closing = asyncio.create_task(_close_when_ended(server), name=f"{server.name} closes")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return server

    async def _new_server(self, folder: Path, environment: Mapping[str, str]) -> ForkServer:
        recipe = self._recipe
        arguments = ["--max-artifact-bytes", str(recipe.max_artifact_bytes)]
        return await ForkServer.start(recipe.command, arguments, environment, folder, recipe.linger)

    async def _until_ready(self, process: WorkerProcess | ForkServer) -> None:
        """Or it is closed. Raises ``StartFailed`` and ``Declined``."""
        limit = self._recipe.start_timeout
        try:
            async with asyncio.timeout(limit):
                await process.until_ready()
        except TimeoutError as error:
            await process.close()
            raise _start_failed(f"was not ready within {limit:g} s (start_timeout)", process) from error
        except (WorkerLost, ServerGone) as error:
            await process.until_ended()
            await process.close()
            raise _start_failed(f"{describe_end(process.returncode)} before it was ready ({error})", process) from error
        except BaseException:
            await process.close()
            raise


async def _close_when_ended(server: ForkServer) -> None:
    await asyncio.wait({server.ended})
    await server.close()


def _start_failed(how: str, process: ChildProcess) -> StartFailed:
    output = process.tail.strip()
    _log.warning("a worker %s. The end of its output:\n%s", how, output or "(none)")
    # Ranks and `status` show this: of a traceback the last line says what is wrong.
    said = f" It said last: {output.splitlines()[-1]}" if output else ""
    return StartFailed(f"The worker {how}.{said} The daemon's log has more.")
