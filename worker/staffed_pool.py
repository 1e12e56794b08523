"""What both pools share: a job gets a worker of a crew, and its verdict decides what becomes of the two.

How a worker is started and how it compiles is left to the pools. Never imports torch or ray.
"""

import abc
import dataclasses
import logging
import time
from collections.abc import Callable
from typing import ClassVar, Generic

from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker.crew import Claim, Crew, CrewSize, WorkerT
from inductord.worker.failures import WorkerFailure
from inductord.worker.pool import Failed, Job, Outcome, PoolUnavailable, Priority, failed
from inductord.worker.verdicts import Verdict

_log = logging.getLogger("inductord.pool")


class StaffedPool(abc.ABC, Generic[WorkerT]):
    """Implements all of ``inductord.worker.pool.Pool`` but ``start``, which calls ``_employ``."""

    kind: ClassVar[str]

    def __init__(self, on_worker_failure: Callable[[WorkerFailure], None]) -> None:
        self._on_worker_failure = on_worker_failure
        self._crashes = 0
        self._size = CrewSize(0, 0, 0.0)
        self._crew: Crew[WorkerT] | None = None
        # Of jobs that wait for a worker.
        self._claims: dict[Claim, str] = {}

    @abc.abstractmethod
    async def _start_worker(self) -> WorkerT:
        """Start one and wait until it is ready. Raises ``crew.StartFailed``."""

    @abc.abstractmethod
    async def _attempt(self, worker: WorkerT, job: Job) -> Verdict:
        """Let the worker compile within the limits of the pool. Never raises for what the worker does."""

    def _employ(self, size: CrewSize) -> None:
        """Begin to start workers."""
        self._size = size
        self._crew = Crew(size, self._start_worker, self._count)
        self._crew.start()

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``."""
        if self._crew is None:
            return failed(FailureKind.FAILURE_KIND_POOL_UNAVAILABLE, f"the {self.kind} pool is not started")
        claim = Claim(job.priority)
        self._claims[claim] = job.key
        try:
            worker = await self._take(self._crew, claim)
        except PoolUnavailable as error:
            return failed(FailureKind.FAILURE_KIND_POOL_UNAVAILABLE, str(error))
        finally:
            del self._claims[claim]
        return await self._run(self._crew, worker, job, started)

    def promote(self, key: str) -> None:
        """See ``Pool.promote``."""
        for claim, waiting in self._claims.items():
            if waiting == key:
                claim.priority = Priority.WAITED_FOR

    def status(self) -> PoolStatus:
        """See ``Pool.status``."""
        status = PoolStatus(kind=self.kind, max_workers=self._size.max_workers, crashes=self._crashes)
        if (crew := self._crew) is not None:
            status.starting, status.idle, status.busy, status.queued = crew.starting, crew.idle, crew.busy, crew.queued
            status.note = f"no worker can be started: {crew.trouble}" if crew.trouble else ""
        return status

    async def stop(self, grace: float) -> None:
        """See ``Pool.stop``."""
        if self._crew is not None:
            await self._crew.stop(grace)

    async def _take(self, crew: Crew[WorkerT], claim: Claim) -> WorkerT:
        """A worker that can take a job. Raises ``PoolUnavailable``."""
        return await crew.acquire(claim)

    async def _run(self, crew: Crew[WorkerT], worker: WorkerT, job: Job, started: Callable[[], None]) -> Outcome:
        began = time.monotonic()
        try:
            started()
            outcome, loss = await self._attempt(worker, job)
        except BaseException:
            # Cancelled, or a defect: either way nobody waits for this worker's reply.
            self._count(WorkerFailure.CANCELLED)
            crew.retire(worker)
            raise
        if loss is None:
            if self._is_spent(worker):
                crew.retire(worker)
            else:
                crew.release(worker)
        else:
            crew.retire(worker)
            if crew.stopping:
                return failed(FailureKind.FAILURE_KIND_POOL_UNAVAILABLE, "the pool was stopped during the compile")
            self._count(loss)
        if isinstance(outcome, Failed):
            elapsed = time.monotonic() - began
            failure = outcome.failure
            last_words = f". The end of what it wrote:\n{failure.traceback}" if loss and failure.traceback else ""
            _log.warning("compile %.12s failed after %.1f s: %s%s", job.key, elapsed, failure.message, last_words)
            return dataclasses.replace(outcome, compile_seconds=elapsed, worker=worker.name)
        return dataclasses.replace(outcome, worker=worker.name)

    def _is_spent(self, worker: WorkerT) -> bool:
        """Whether a worker that did its job well should not get another."""
        return False

    def _threads(self, cpus: int) -> int:
        """How many threads a job may use when it shares ``cpus`` with the jobs that run."""
        return max(1, cpus // max(1, self._crew.busy if self._crew else 1))

    def _count(self, reason: WorkerFailure) -> None:
        if reason in (WorkerFailure.DIED, WorkerFailure.OOM):
            self._crashes += 1
        self._on_worker_failure(reason)
