"""The Ray pool: compiles in actors of a Ray cluster, or of a Ray of this node's own. First cut.

Graphs go out and artifacts come back through Ray's object store. Ray is imported when the pool is started, never with this
module. Never imports torch.
"""

import asyncio
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker import compile_task, limits, verdicts
from inductord.worker.crew import Claim, Crew, CrewSize, StartFailed
from inductord.worker.failures import WorkerFailure
from inductord.worker.pool import Job, PoolUnavailable, failed
from inductord.worker.process import CompileGraph, Warm
from inductord.worker.ray_actor import CompileActor
from inductord.worker.ray_session import RaySession
from inductord.worker.scratch import Scratch
from inductord.worker.staffed_pool import StaffedPool
from inductord.worker.verdicts import Verdict

if TYPE_CHECKING:
    from inductord.worker.ray_handle import RayWorker

_log = logging.getLogger("inductord.pool")

# An idle actor answers in milliseconds. One on a node that froze never does.
_ANSWER_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RayPoolConfig:
    """Sizes and limits of a Ray pool. Times in seconds.

    ``address``: None for the cluster that ``RAY_ADDRESS`` names, else a Ray of this node's own; ``local`` for the latter
    always; else what ``ray.init`` takes, e.g. ``ray://host:10001``. ``max_workers``: None takes what the cluster's CPUs allow.
    ``environment``: set in each actor's process.
    """

    scratch: Path
    max_artifact_bytes: int
    address: str | None = None
    num_cpus: float = 1
    max_workers: int | None = None
    min_warm: int = 1
    idle_seconds: float = 300.0
    compile_timeout: float = 600.0
    start_timeout: float = 300.0
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


class RayPool(StaffedPool["RayWorker"]):
    """Implements ``inductord.worker.pool.Pool`` with Ray actors.

    Args:
        on_worker_failure: told of each failure of an actor, once.
        warm, compile_graph: what actors run. They must be importable on the cluster.
    """

    kind = "ray"

    def __init__(
        self,
        config: RayPoolConfig,
        on_worker_failure: Callable[[WorkerFailure], None] = lambda _: None,
        *,
        warm: Warm = compile_task.warm,
        compile_graph: CompileGraph = compile_task.compile_graph,
    ) -> None:
        super().__init__(on_worker_failure)
        self._config = config
        self._address = config.address or os.environ.get("RAY_ADDRESS") or "local"
        self._task = (warm, compile_graph)
        self._scratch: Scratch | None = None
        self._session: RaySession | None = None
        self._session_thread = ThreadPoolExecutor(1, "ray session")
        self._calls = ThreadPoolExecutor(4, "ray calls")

    async def start(self) -> None:
        """See ``Pool.start``. Waits for the connection: seconds."""
        config, machine = self._config, limits.this_machine()
        loop = asyncio.get_running_loop()
        try:
            self._scratch = await asyncio.to_thread(Scratch, config.scratch)
        except OSError as error:
            raise PoolUnavailable(
                f"{config.scratch} cannot be used: {error}. Set scratch to a writable folder"
            ) from error
        self._session = await loop.run_in_executor(
            self._session_thread, RaySession, self._address, machine, config.scratch
        )
        cpus = await loop.run_in_executor(self._session_thread, self._session.cpus)
        fitting = max(1, int(cpus // config.num_cpus))
        most = config.max_workers or (min(fitting, machine.max_workers()) if self._is_own else fitting)
        _log.info("Ray pool at %s: up to %d workers", self._address, most)
        self._employ(CrewSize(most, min(config.min_warm, most), config.idle_seconds))

    @property
    def _is_own(self) -> bool:
        return self._address == "local"

    async def stop(self, grace: float) -> None:
        """See ``Pool.stop``. Ends actors, and a Ray of our own; a cluster goes on."""
        await super().stop(grace)
        if self._session is not None:
            session, self._session = self._session, None
            await asyncio.get_running_loop().run_in_executor(self._session_thread, session.close)
        self._session_thread.shutdown(wait=False)
        self._calls.shutdown(wait=False)
        if self._scratch is not None:
            scratch, self._scratch = self._scratch, None
            await asyncio.to_thread(scratch.close)

    async def _start_worker(self) -> "RayWorker":
        from inductord.worker.ray_handle import ActorLost, RayWorker

        loop = asyncio.get_running_loop()
        worker = RayWorker(await loop.run_in_executor(self._calls, self._create_actor), self._calls)
        try:
            async with asyncio.timeout(self._config.start_timeout):
                await worker.until_ready()
        except (ActorLost, TimeoutError) as error:
            await worker.close()
            late = f"no actor was ready within {self._config.start_timeout:g} s; is a node free?"
            raise StartFailed(late if isinstance(error, TimeoutError) else str(error)) from error
        except asyncio.CancelledError:
            await worker.close()
            raise
        return worker

    async def _take(self, crew: Crew["RayWorker"], claim: Claim) -> "RayWorker":
        from inductord.worker.ray_handle import ActorLost

        while True:
            worker = await crew.acquire(claim)
            try:
                # Nobody tells of the death of an idle actor, or of its node. A job must not be lost to find out.
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await worker.until_ready()
            except (ActorLost, TimeoutError) as error:
                _log.warning("%s does not answer: %s", worker.name, error)
                self._count(WorkerFailure.DIED)
                crew.retire(worker)
            except asyncio.CancelledError:
                crew.release(worker)
                raise
            else:
                return worker

    def _create_actor(self) -> Any:
        import ray

        config = self._config
        # Only actors of this node can use the daemon's folder.
        folder = str(self._scratch.path / "actors") if self._is_own and self._scratch is not None else None
        remote = ray.remote(num_cpus=config.num_cpus, max_restarts=0, max_task_retries=0)(CompileActor)
        # Set before anything is imported there: torch asks when it is imported.
        environment = {"INDUCTORD": "0", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} | dict(config.environment)
        return remote.options(runtime_env={"env_vars": environment}).remote(
            *self._task, config.max_artifact_bytes, folder, environment
        )

    async def _attempt(self, worker: "RayWorker", job: Job) -> Verdict:
        from inductord.worker.ray_handle import ActorLost

        config = self._config
        threads = self._threads(limits.this_machine().cpus) if self._is_own else max(1, int(config.num_cpus))
        try:
            async with asyncio.timeout(config.compile_timeout):
                reply = await worker.run(job.key, job.graph, threads)
        except TimeoutError:
            return verdicts.timed_out(config.compile_timeout)
        except ActorLost as error:
            message = f"the actor was lost in the middle of a compile: {error}"
            outcome = failed(FailureKind.FAILURE_KIND_WORKER_DIED, message, traceback=error.details, retryable=True)
            return outcome, WorkerFailure.DIED
        return verdicts.replied(reply, oom_killed=False)
