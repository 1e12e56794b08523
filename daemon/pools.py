"""Which pool compiles: made from the configuration, and replaced by the local one when Ray cannot be had.

Ray is imported only when it is asked for.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from inductord.daemon.config import DaemonConfig
from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.compiler_pb2 import FAILURE_KIND_POOL_UNAVAILABLE
from inductord.worker.local_pool import LocalPool, LocalPoolConfig
from inductord.worker.pool import Job, Outcome, Pool, PoolUnavailable, failed

_log = logging.getLogger("inductord.pool")

# Ray itself tries for minutes to reach a cluster that is not there, and jobs wait meanwhile.
_START_SECONDS = 45.0


def local_pool(config: DaemonConfig, scratch: Path, on_worker_failure: Callable[[str], None]) -> Pool:
    """A pool of processes of this node."""
    return LocalPool(
        LocalPoolConfig(
            scratch=scratch,
            max_artifact_bytes=config.max_artifact_bytes,
            max_workers=config.max_workers,
            idle_seconds=config.idle_seconds,
            compile_timeout=config.compile_timeout,
            worker_memory_bytes=config.worker_memory_bytes,
            command=config.worker_command,
        ),
        on_worker_failure,
    )


def ray_pool(config: DaemonConfig, scratch: Path, on_worker_failure: Callable[[str], None]) -> Pool:
    """A pool on Ray: the cluster of ``ray://…``, else that of this environment, else one of this node."""
    from inductord.worker.ray_pool import RayPool, RayPoolConfig

    return RayPool(
        RayPoolConfig(
            address=None if config.pool == "ray" else config.pool,
            scratch=scratch,
            max_artifact_bytes=config.max_artifact_bytes,
            max_workers=config.max_workers,
            compile_timeout=config.compile_timeout,
        ),
        on_worker_failure,
    )


class ChosenPool:
    """A pool that starts in the background. Jobs that come earlier wait for it.

    When ``make`` gives a pool that cannot be had, ``make_other`` gives the one that serves instead, and the status says so.
    """

    def __init__(self, make: Callable[[], Pool], make_other: Callable[[], Pool] | None) -> None:
        self._make_other = make_other
        self._pool = make()
        self._note = ""
        self._trouble = ""
        self._started = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None

    @property
    def kind(self) -> str:
        """Of the pool that serves."""
        return self._pool.kind

    async def start(self) -> None:
        """See ``Pool.start``. Never raises: when there is no pool, jobs fail with the reason."""
        self._starting = asyncio.create_task(self._start_one(), name="start pool")

    async def _start_one(self) -> None:
        try:
            await self._start_first_or_other()
        except PoolUnavailable as error:
            self._trouble = str(error)
            _log.error("there is no pool: %s", error)
        finally:
            self._started.set()

    async def _start_first_or_other(self) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._pool.start()
        except Exception as error:
            reason = _reason(error)
            if self._make_other is None:
                raise PoolUnavailable(reason) from error
            first, self._pool = self._pool, self._make_other()
            await first.stop(0)
            self._note = f"{first.kind} cannot be had, the {self._pool.kind} pool serves: {reason}"
            _log.warning("%s", self._note)
            await self._pool.start()

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``."""
        await self._started.wait()
        if self._trouble:
            return failed(FAILURE_KIND_POOL_UNAVAILABLE, self._trouble)
        return await self._pool.compile(job, started)

    def promote(self, key: str) -> None:
        """See ``Pool.promote``."""
        self._pool.promote(key)

    def status(self) -> PoolStatus:
        """See ``Pool.status``."""
        status = self._pool.status()
        status.note = "; ".join(note for note in (self._trouble, self._note, status.note) if note)
        return status

    async def stop(self, grace: float) -> None:
        """See ``Pool.stop``."""
        if self._starting is not None:
            # Cut short, it could leave behind what it had begun to make.
            await asyncio.wait({self._starting}, timeout=grace)
            self._starting.cancel()
        await self._pool.stop(grace)


def _reason(error: Exception) -> str:
    match error:
        case PoolUnavailable():
            return str(error)
        case TimeoutError():
            return f"it did not start within {_START_SECONDS:g} s"
        case _:
            _log.error("a pool did not start, for a reason that it does not know", exc_info=error)
            return f"{type(error).__name__}: {error}"


def choose_pool(config: DaemonConfig, scratch: Path, on_worker_failure: Callable[[str], None]) -> ChosenPool:
    """The pool that the configuration asks for, not started."""

    def local() -> Pool:
        return local_pool(config, scratch, on_worker_failure)

    if config.pool == "local":
        return ChosenPool(local, None)
    return ChosenPool(lambda: ray_pool(config, scratch, on_worker_failure), local)
