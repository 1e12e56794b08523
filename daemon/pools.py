"""Which pool compiles: made from the configuration; the local one where Ray was asked for and cannot be had.

Nothing here waits for Ray once it is known to be away: jobs go to the local pool, and Ray is tried again in the background.
"""

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from inductord.daemon.config import DaemonConfig
from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.bridge_pb2 import ORIGIN_FOUND, ORIGIN_JOINED
from inductord.v1.compiler_pb2 import FAILURE_KIND_POOL_UNAVAILABLE
from inductord.worker.local_pool import LocalPool, LocalPoolConfig
from inductord.worker.pool import Compiled, Job, Outcome, Pool, PoolUnavailable, failed
from inductord.worker.ray_pool import RayPool, RayPoolConfig

_log = logging.getLogger("inductord.pool")

_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0


class RayJob(enum.StrEnum):
    """How a job ended that was given to Ray. Closed: also a metric label."""

    COMPILED = "compiled"
    JOINED = "joined"
    FOUND = "found"
    FAILED = "failed"
    MOVED = "moved"


class RayLink(enum.StrEnum):
    """What became of the connection to Ray. Closed: also a metric label."""

    CONNECTED = "connected"
    REFUSED = "refused"
    LOST = "lost"


class RayEvents(Protocol):
    """Who counts what happens with Ray."""

    def ray_link(self, event: RayLink) -> None:
        """It was connected, could not be, or was lost."""

    def ray_job(self, end: RayJob, seconds: float) -> None:
        """A job that was given to Ray ended after so long. One that was MOVED is taken by the local pool, or by a rank when it
        needs a device."""


def local_pool(config: DaemonConfig, scratch: Path, on_worker_failure: Callable[[str], None]) -> LocalPool:
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


def ray_pool(config: DaemonConfig, scratch: Path) -> RayPool:
    """A pool on Ray: the cluster of ``ray://…``, else that of this environment, else one of this node."""
    return RayPool(
        RayPoolConfig(
            address=None if config.pool == "ray" else config.pool,
            scratch=scratch,
            max_artifact_bytes=config.max_artifact_bytes,
            max_workers=config.max_workers,
            min_warm=config.ray_min_warm,
            idle_seconds=config.idle_seconds,
            compile_timeout=config.compile_timeout,
            worker_memory_bytes=config.worker_memory_bytes,
            labels=config.ray_labels,
            # This node's interpreter need not be where the cluster's is.
            command=config.worker_command if "worker_command" in config.origins else None,
            failure_ttl=config.failure_ttl,
        )
    )


class ChosenPool:
    """The pool of the daemon. Jobs that come before it is known whether Ray can be had wait for that, at most for as long as a
    connection may take.

    Args:
        make_local: a pool of this node. It is started when it is needed, and then stays.
        make_ray: None when Ray was not asked for.
    """

    def __init__(
        self, make_local: Callable[[], Pool], make_ray: Callable[[], RayPool] | None, events: RayEvents
    ) -> None:
        self._local = make_local()
        self._make_ray = make_ray
        self._events = events
        self._ray: RayPool | None = None
        self._away = ""
        self._decided = asyncio.Event()
        self._starting_local: asyncio.Task[str] | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def kind(self) -> str:
        """Of the pool that serves."""
        return self._local.kind if self._ray is None else self._ray.kind

    async def start(self) -> None:
        """See ``Pool.start``. Never raises: when there is no pool, jobs fail with the reason."""
        if self._make_ray is None:
            self._start_local()
            self._decided.set()
        else:
            self._keeping = asyncio.create_task(self._keep_ray(self._make_ray), name="connection to Ray")

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``."""
        await self._decided.wait()
        if (ray := self._ray) is not None:
            began = time.monotonic()
            outcome = await ray.compile(job, started)
            end = _end_of(outcome)
            self._events.ray_job(end, time.monotonic() - began)
            if end is not RayJob.MOVED:
                return outcome
            assert not isinstance(outcome, Compiled)
            if job.needs_device:
                return outcome  # Workers of this node have no device; a rank has.
            _log.warning("%.12s goes to the local pool: %s", job.key, outcome.failure.message)
        if trouble := await asyncio.shield(self._start_local()):
            return failed(FAILURE_KIND_POOL_UNAVAILABLE, trouble)
        return await self._local.compile(job, started)

    def promote(self, key: str) -> None:
        """See ``Pool.promote``."""
        if self._ray is not None:
            self._ray.promote(key)
        self._local.promote(key)

    def status(self) -> PoolStatus:
        """See ``Pool.status``. What both pools do is summed when both have work."""
        local = self._local.status()
        if self._ray is None:
            local.note = "; ".join(note for note in (self._away, self._trouble, local.note) if note)
            return local
        status = self._ray.status()
        status.starting += local.starting
        status.idle += local.idle
        status.busy += local.busy
        status.queued += local.queued
        status.crashes += local.crashes
        return status

    async def stop(self, grace: float) -> None:
        """See ``Pool.stop``."""
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        if self._ray is not None:
            await self._ray.stop(grace)
        if self._starting_local is not None:
            await self._starting_local
            await self._local.stop(grace)

    # The local pool

    @property
    def _trouble(self) -> str:
        task = self._starting_local
        return task.result() if task is not None and task.done() else ""

    def _start_local(self) -> "asyncio.Task[str]":
        """Start it once. The task's result: why it cannot be had, or nothing."""
        if self._starting_local is None:
            self._starting_local = asyncio.create_task(self._start_local_now(), name="start local pool")
        return self._starting_local

    async def _start_local_now(self) -> str:
        try:
            await self._local.start()
        except PoolUnavailable as error:
            _log.error("there is no local pool: %s", error)
            return str(error)
        return ""

    # Ray

    async def _keep_ray(self, make: Callable[[], RayPool]) -> None:
        """Connect, wait until the connection is lost, and again, for ever."""
        delay = _FIRST_RETRY_SECONDS
        while True:
            pool = make()
            try:
                await pool.start()
            except PoolUnavailable as error:
                why, event = str(error), RayLink.REFUSED
            except BaseException:
                await pool.stop(0)
                raise
            else:
                delay = _FIRST_RETRY_SECONDS
                self._serve_with(pool)
                why, event = await pool.lost, RayLink.LOST
            self._ray = None
            self._events.ray_link(event)
            self._say_away(f"Ray cannot be had, the {self._local.kind} pool serves: {why}")
            self._decided.set()
            await pool.stop(0)
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_RETRY_SECONDS)

    def _serve_with(self, pool: RayPool) -> None:
        _log.info("Ray compiles%s", ", it is there again" if self._away else "")
        self._ray, self._away = pool, ""
        self._events.ray_link(RayLink.CONNECTED)
        self._decided.set()

    def _say_away(self, why: str) -> None:
        if why != self._away:
            _log.warning("%s. It is tried again", why)
        self._away = why


def _end_of(outcome: Outcome) -> RayJob:
    if isinstance(outcome, Compiled):
        return {ORIGIN_JOINED: RayJob.JOINED, ORIGIN_FOUND: RayJob.FOUND}.get(outcome.origin, RayJob.COMPILED)
    return RayJob.MOVED if outcome.failure.kind == FAILURE_KIND_POOL_UNAVAILABLE else RayJob.FAILED


def choose_pool(
    config: DaemonConfig, scratch: Path, on_worker_failure: Callable[[str], None], events: RayEvents
) -> ChosenPool:
    """The pool that the configuration asks for, not started."""
    make_ray = None if config.pool == "local" else lambda: ray_pool(config, scratch)
    return ChosenPool(lambda: local_pool(config, scratch, on_worker_failure), make_ray, events)
