"""The local pool: compiles in processes of this node, sized from what the cgroup grants.

It owns what becomes of one job: threads, time and memory limits, and what it means when a worker is lost. ``crew``
owns who works; ``handle`` owns the single process. Never imports torch.
"""

import asyncio
import dataclasses
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.compiler_pb2 import FailureKind
from inductord.v1.worker_pb2 import CompileJob
from inductord.worker import limits, memory, scratch, verdicts
from inductord.worker.crew import Crew, CrewSize, StartFailed
from inductord.worker.environment import worker_environment
from inductord.worker.failures import WorkerFailure, describe_end
from inductord.worker.handle import WorkerLost, WorkerProcess
from inductord.worker.pool import Failed, Job, Outcome, PoolUnavailable, failed

_log = logging.getLogger("inductord.pool")

_MEMORY_INTERVAL_S = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LocalPoolConfig:
    """Sizes and limits of a local pool. Times in seconds.

    ``max_workers``: None takes what CPUs and memory allow. ``worker_memory_bytes``: resident bytes of one worker with
    all that it spawned, None for no limit beyond the cgroup's. ``scratch``: an exec-capable folder for compiler
    caches. ``environment``: set in each worker on top of the pool's own choice.
    """

    scratch: Path
    max_artifact_bytes: int
    max_workers: int | None = None
    min_warm: int = 1
    idle_seconds: float = 300.0
    compile_timeout: float = 600.0
    start_timeout: float = 300.0
    worker_memory_bytes: int | None = None
    command: Sequence[str] = (sys.executable, "-m", "inductord.worker")
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


class LocalPool:
    """Implements ``inductord.worker.pool.Pool`` with processes of this node.

    ``on_worker_failure`` is told of each failure of a worker, once.
    """

    kind = "local"

    def __init__(
        self, config: LocalPoolConfig, on_worker_failure: Callable[[WorkerFailure], None] = lambda _: None
    ) -> None:
        machine = limits.this_machine()
        self._config = config
        self._cpus = machine.cpus
        self._max_workers = config.max_workers or machine.max_workers()
        self._on_worker_failure = on_worker_failure
        self._crashes = 0
        self._scratch: scratch.Scratch | None = None
        size = CrewSize(self._max_workers, min(config.min_warm, self._max_workers), config.idle_seconds)
        self._crew = Crew(size, self._start_worker, self._count)

    async def start(self) -> None:
        """See ``Pool.start``."""
        try:
            self._scratch = await asyncio.to_thread(scratch.Scratch, self._config.scratch)
        except OSError as error:
            raise PoolUnavailable(
                f"workers need a folder for compiler caches and {self._config.scratch} cannot be used: {error}. "
                "Set scratch to a folder that this user can write"
            ) from error
        _log.info("local pool: up to %d workers on %d CPUs", self._max_workers, self._cpus)
        self._crew.start()

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``."""
        try:
            worker = await self._crew.acquire()
        except PoolUnavailable as error:
            return failed(FailureKind.FAILURE_KIND_POOL_UNAVAILABLE, str(error))
        return await self._run(worker, job, started)

    def status(self) -> PoolStatus:
        """See ``Pool.status``."""
        crew = self._crew
        return PoolStatus(
            kind=self.kind,
            max_workers=self._max_workers,
            starting=crew.starting,
            idle=crew.idle,
            busy=crew.busy,
            queued=crew.queued,
            crashes=self._crashes,
            note=f"no worker can be started: {crew.trouble}" if crew.trouble else "",
        )

    async def stop(self, grace: float) -> None:
        """See ``Pool.stop``."""
        await self._crew.stop(grace)
        if self._scratch is not None:
            folder, self._scratch = self._scratch, None
            await asyncio.to_thread(folder.close)

    async def _start_worker(self) -> WorkerProcess:
        config = self._config
        assert self._scratch is not None, "start() comes before any worker"
        folder = self._scratch.for_worker()
        environment = worker_environment(os.environ, folder, config.environment)
        try:
            worker = await WorkerProcess.spawn(config.command, environment, folder, config.max_artifact_bytes)
        except OSError as error:
            scratch.remove(folder)
            raise StartFailed(f"{config.command[0]} cannot be run: {error}") from error
        try:
            async with asyncio.timeout(config.start_timeout):
                await worker.until_ready()
        except TimeoutError as error:
            await worker.close()
            raise _start_failed(f"was not ready within {config.start_timeout:g} s (start_timeout)", worker) from error
        except WorkerLost as error:
            await worker.until_ended()
            await worker.close()
            raise _start_failed(f"{describe_end(worker.returncode)} before it was ready ({error})", worker) from error
        except asyncio.CancelledError:
            await worker.close()
            raise
        return worker

    async def _run(self, worker: WorkerProcess, job: Job, started: Callable[[], None]) -> Outcome:
        began = time.monotonic()
        request = CompileJob(key=job.key, graph=job.graph, threads=max(1, self._cpus // self._crew.busy))
        try:
            started()
            outcome, loss = await self._attempt(worker, request)
        except BaseException:
            # Cancelled, or a defect: either way nobody waits for this worker's reply.
            self._lose(worker, WorkerFailure.CANCELLED)
            raise
        if loss is None:
            self._crew.release(worker)
        elif self._crew.stopping:
            self._crew.retire(worker)
            return failed(FailureKind.FAILURE_KIND_POOL_UNAVAILABLE, "the pool was stopped during the compile")
        else:
            self._lose(worker, loss)
        if isinstance(outcome, Failed):
            elapsed = time.monotonic() - began
            _log.warning("compile %.12s failed after %.1f s: %s", job.key, elapsed, outcome.failure.message)
            return dataclasses.replace(outcome, compile_seconds=elapsed)
        return outcome

    async def _attempt(self, worker: WorkerProcess, request: CompileJob) -> verdicts.Verdict:
        """Let the worker compile within the limits of time and memory."""
        config = self._config
        oom_kills = limits.oom_kills()
        exchange = asyncio.create_task(worker.run(request))
        limit = config.worker_memory_bytes
        watch = None if limit is None else asyncio.create_task(memory.until_over(worker.pid, limit, _MEMORY_INTERVAL_S))
        tasks = {task for task in (exchange, watch) if task is not None}
        try:
            await asyncio.wait(tasks, timeout=config.compile_timeout, return_when=asyncio.FIRST_COMPLETED)
            if exchange.done():
                try:
                    reply = await exchange
                except WorkerLost as error:
                    await worker.until_ended()
                    return verdicts.lost(worker.returncode, limits.oom_kills() > oom_kills, str(error), worker.tail)
                return verdicts.replied(reply, limits.oom_kills() > oom_kills)
            if watch is not None and limit is not None and watch.done():
                return verdicts.over_memory(watch.result(), limit)
            return verdicts.timed_out(config.compile_timeout)
        finally:
            for task in tasks:
                task.cancel()

    def _lose(self, worker: WorkerProcess, reason: WorkerFailure) -> None:
        self._count(reason)
        self._crew.retire(worker)

    def _count(self, reason: WorkerFailure) -> None:
        if reason in (WorkerFailure.DIED, WorkerFailure.OOM):
            self._crashes += 1
        self._on_worker_failure(reason)


def _start_failed(how: str, worker: WorkerProcess) -> StartFailed:
    return StartFailed(f"The worker {how}. The end of its output:\n{worker.tail or '(none)'}")
