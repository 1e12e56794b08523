"""The local pool: compiles in processes of this node, sized from what the cgroup grants.

It owns what becomes of one job: threads, time and memory limits, and what it means when a worker is lost. ``crew``
owns who works, ``recruiter`` how they are started, ``handle`` the single process. Never imports torch.
"""

import asyncio
import dataclasses
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import CompileJob
from inductord.worker import limits, memory, scratch, verdicts
from inductord.worker.crew import Claim, CrewSize
from inductord.worker.failures import WorkerFailure
from inductord.worker.handle import WorkerLost, WorkerProcess
from inductord.worker.pool import Job, PoolUnavailable
from inductord.worker.prepared import Prepared
from inductord.worker.recruiter import Recipe, Recruiter
from inductord.worker.staffed_pool import StaffedPool
from inductord.worker.verdicts import Verdict

_log = logging.getLogger("inductord.pool")

_MEMORY_INTERVAL_S = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LocalPoolConfig:
    """Sizes and limits of a local pool. Times in seconds.

    ``max_workers``: None takes what CPUs and memory allow. ``worker_memory_bytes``: resident bytes of one worker with
    all that it spawned, None for no limit beyond the cgroup's. ``scratch``: an exec-capable folder for compiler
    caches. ``environment``: set in each worker on top of the pool's own choice. ``cpus``: what the jobs share, None for
    all that this process may use.
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
    cpus: int | None = None


class LocalPool(StaffedPool[WorkerProcess]):
    """Implements ``inductord.worker.pool.Pool`` with processes of this node.

    ``on_worker_failure`` is told of each failure of a worker, once.
    """

    kind = "local"

    def __init__(
        self, config: LocalPoolConfig, on_worker_failure: Callable[[WorkerFailure], None] = lambda _: None
    ) -> None:
        super().__init__(on_worker_failure)
        self._config = config
        self._cpus = 1
        self._scratch: scratch.Scratch | None = None
        self._last_memory: dict[WorkerProcess, int] = {}
        self._recruiter: Recruiter | None = None

    async def start(self) -> None:
        """See ``Pool.start``."""
        config, machine = self._config, limits.this_machine()
        try:
            self._scratch = await asyncio.to_thread(scratch.Scratch, config.scratch)
        except OSError as error:
            raise PoolUnavailable(
                f"workers need a folder for compiler caches and {config.scratch} cannot be used: {error}. "
                "Set scratch to a folder that this user can write"
            ) from error
        self._cpus = config.cpus or machine.cpus
        max_workers = config.max_workers or machine.max_workers()
        recipe = Recipe(
            command=config.command,
            environment=config.environment,
            max_artifact_bytes=config.max_artifact_bytes,
            start_timeout=config.start_timeout,
            forks=max_workers > 1,
            linger=config.idle_seconds,
        )
        self._recruiter = Recruiter(recipe, self._scratch, Prepared(config.scratch / "prepared"))
        _log.info("local pool: up to %d workers on %d CPUs", max_workers, machine.cpus)
        self._employ(CrewSize(max_workers, min(config.min_warm, max_workers), config.idle_seconds))

    async def toolchain(self) -> Toolchain:
        """Under what its workers compile; waits until one is ready.

        Raises:
            PoolUnavailable: none can be started.
        """
        assert self._crew is not None, "start() comes first"
        worker = await self._crew.acquire(Claim())
        self._crew.release(worker)
        return worker.toolchain

    async def stop(self, grace: float) -> None:
        """See ``Pool.stop``."""
        await super().stop(grace)
        if self._recruiter is not None:
            await self._recruiter.close()
        if self._scratch is not None:
            folder, self._scratch = self._scratch, None
            await asyncio.to_thread(folder.close)

    async def _start_worker(self) -> WorkerProcess:
        assert self._recruiter is not None, "start() comes before any worker"
        return await self._recruiter.start()

    def _is_spent(self, worker: WorkerProcess) -> bool:
        # Compiled kernels stay mapped and PyTorch keeps what it loaded: a worker only grows.
        return self._last_memory.pop(worker, 0) > limits.WORKER_MEMORY_BYTES

    async def _attempt(self, worker: WorkerProcess, job: Job) -> Verdict:
        config = self._config
        oom_kills = limits.oom_kills()
        request = CompileJob(
            key=job.key, graph=job.graph, threads=self._threads(self._cpus), traceparent=job.traceparent
        )
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
                self._last_memory[worker] = await asyncio.to_thread(memory.of_group, worker.pid)
                return verdicts.replied(reply, limits.oom_kills() > oom_kills)
            if watch is not None and limit is not None and watch.done():
                return verdicts.over_memory(watch.result(), limit)
            return verdicts.timed_out(config.compile_timeout)
        finally:
            for task in tasks:
                task.cancel()
