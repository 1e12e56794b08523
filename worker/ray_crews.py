"""Who compiles in a cluster: one crew of actors for each shape of work. Runs in the registry's actor.

Where actors run, and on which of the nodes that have room, is Ray's to decide; actors that found no room yet are the demand
that its autoscaler sees. A job waits in one queue for the first actor that is free, so nothing is ever assigned that would
have to be stolen back.
"""

import asyncio
import collections
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.compiler_pb2 import FailureKind, Toolchain
from inductord.worker.crew import Claim, Crew, CrewSize, NoneFits, NotNeeded, StartFailed
from inductord.worker.failures import WorkerFailure
from inductord.worker.pool import Failed, Job, Outcome, failed
from inductord.worker.ray_actor import ActorConfig, CompileActor
from inductord.worker.ray_handle import ActorLost, RayWorker
from inductord.worker.ray_routing import Shape, label_selector, misfit
from inductord.worker.staffed_pool import StaffedPool
from inductord.worker.verdicts import Verdict

_log = logging.getLogger("inductord.registry")

# An idle actor answers in milliseconds. One on a node that froze never does.
_ANSWER_SECONDS = 10.0
_LOOK_SECONDS = 2.0
# Beyond what the actor's own pool allows: then the actor or its node is frozen.
_OVERTIME_SECONDS = 30.0
_LOSSES = {
    FailureKind.FAILURE_KIND_WORKER_DIED: WorkerFailure.DIED,
    FailureKind.FAILURE_KIND_OUT_OF_MEMORY: WorkerFailure.OOM,
    FailureKind.FAILURE_KIND_TIMEOUT: WorkerFailure.TIMEOUT,
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CrewsConfig:
    """Sizes and limits of a cluster's workers. Times in seconds.

    ``max_workers``: actors of one shape, None for as many as Ray has or makes room for. ``room_timeout``: a job is not kept
    waiting longer when no worker of its shape has a place. ``labels``: parts of a toolchain by which nodes are labelled.
    """

    max_artifact_bytes: int
    num_cpus: float = 1
    num_gpus: float = 1
    max_workers: int | None = None
    min_warm: int = 1
    idle_seconds: float = 300.0
    compile_timeout: float = 600.0
    start_timeout: float = 300.0
    room_timeout: float = 60.0
    worker_memory_bytes: int | None = None
    labels: Sequence[str] = ()
    command: Sequence[str] | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


# Ray turns more pending actors than this into no more nodes: autoscalers look at some thousands of demands.
_MOST_WORKERS = 1024


class RayCrew(StaffedPool[RayWorker]):
    """The actors of one shape. ``make_room``: asks the other shapes to let an idle actor go."""

    kind = "ray"

    def __init__(
        self,
        shape: Shape,
        config: CrewsConfig,
        make_room: Callable[[], None],
        on_worker_failure: Callable[[WorkerFailure], None],
    ) -> None:
        super().__init__(on_worker_failure)
        self._shape = shape
        self._toolchain = Toolchain.FromString(shape.toolchain)
        self._config = config
        self._make_room = make_room

    async def start(self) -> None:
        """See ``Pool.start``."""
        config = self._config
        # A device is not held for the sake of warmth.
        min_warm = 0 if self._shape.needs_device else config.min_warm
        self._employ(CrewSize(config.max_workers or _MOST_WORKERS, min_warm, config.idle_seconds))

    def let_one_go(self) -> None:
        """End an idle actor, if there is one: another shape needs its place."""
        if self._crew is not None:
            self._crew.let_one_go()

    async def _start_worker(self) -> RayWorker:
        worker = RayWorker(self._create_actor())
        try:
            await self._until_placed(worker)
            async with asyncio.timeout(self._config.start_timeout):
                toolchain = await worker.ready()
        except ActorLost as error:
            await worker.close()
            raise StartFailed(str(error)) from error
        except TimeoutError as error:
            await worker.close()
            raise StartFailed(f"an actor was not ready within {self._config.start_timeout:g} s") from error
        except (asyncio.CancelledError, StartFailed):
            await worker.close()
            raise
        if why := misfit(self._toolchain, toolchain):
            await worker.close()
            raise NoneFits(f"{why}. Label the nodes by what differs (docs/ray.md), or make them alike")
        return worker

    async def _until_placed(self, worker: RayWorker) -> None:
        """Wait for room as long as somebody needs this actor and others serve meanwhile; see ``room_timeout`` for when not."""
        assert self._crew is not None
        placed = asyncio.ensure_future(worker.placed())
        began = time.monotonic()
        try:
            while not (await asyncio.wait({placed}, timeout=_LOOK_SECONDS))[0]:
                if self._crew.surplus:
                    raise NotNeeded("nobody waits for it any more")
                self._make_room()
                alone = not (self._crew.busy or self._crew.idle)
                if alone and time.monotonic() - began > self._config.room_timeout:
                    raise NoneFits(self._no_room())
            await placed
        finally:
            placed.cancel()

    def _no_room(self) -> str:
        config, needs = self._config, [f"{self._config.num_cpus:g} CPU"]
        if self._shape.needs_device:
            needs.append(f"{config.num_gpus:g} GPU")
        needs += (f"{name}={value}" for name, value in label_selector(self._toolchain, config.labels).items())
        return f"no node of the cluster had room within {config.room_timeout:g} s for {', '.join(needs)}"

    def _create_actor(self) -> Any:
        config = self._config
        # Set before anything is imported there: torch asks when it is imported.
        environment = {"INDUCTORD": "0", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        return (
            ray.remote(CompileActor)
            .options(
                num_cpus=config.num_cpus,
                num_gpus=config.num_gpus if self._shape.needs_device else 0,
                label_selector=label_selector(self._toolchain, config.labels) or None,
                max_restarts=0,
                max_task_retries=0,
                runtime_env={"env_vars": environment},
            )
            .remote(
                ActorConfig(
                    max_artifact_bytes=config.max_artifact_bytes,
                    compile_timeout=config.compile_timeout,
                    worker_memory_bytes=config.worker_memory_bytes,
                    command=config.command,
                    environment=config.environment,
                    cpus=max(1, int(config.num_cpus)),
                    needs_device=self._shape.needs_device,
                )
            )
        )

    async def _take(self, crew: Crew[RayWorker], claim: Claim) -> RayWorker:
        while True:
            worker = await crew.acquire(claim)
            try:
                # Nobody tells of the death of an idle actor, or of its node. A job must not be lost to find out.
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await worker.placed()
            except (ActorLost, TimeoutError) as error:
                _log.warning("%s does not answer: %s", worker.name, error)
                self._count(WorkerFailure.DIED)
                crew.retire(worker)
            except asyncio.CancelledError:
                crew.release(worker)
                raise
            else:
                return worker

    async def _attempt(self, worker: RayWorker, job: Job) -> Verdict:
        try:
            async with asyncio.timeout(self._config.compile_timeout + _OVERTIME_SECONDS):
                outcome = await worker.run(job.key, job.place, job.traceparent)
        except (ActorLost, TimeoutError) as error:
            said = str(error) or "its node does not answer"
            message = f"the actor was lost in the middle of a compile: {said}"
            details = error.details if isinstance(error, ActorLost) else ""
            lost = failed(FailureKind.FAILURE_KIND_WORKER_DIED, message, traceback=details, retryable=True)
            return lost, WorkerFailure.DIED
        if isinstance(outcome, Failed) and (loss := _LOSSES.get(outcome.failure.kind)):
            # The actor lives and starts a new worker process.
            self._count(loss)
        return outcome, None


class RayCrews:
    """Implements what the registry needs of a pool."""

    def __init__(self, config: CrewsConfig) -> None:
        self._config = config
        self._crews: dict[Shape, RayCrew] = {}
        self._failures: collections.Counter[str] = collections.Counter()
        self._free_gpus = 0.0

    def free_gpus(self, count: float) -> None:
        """So many GPUs of the cluster are nobody's."""
        self._free_gpus = count

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``."""
        shape = Shape(job.toolchain.SerializeToString(deterministic=True), job.needs_device)
        crew = self._crews.get(shape)
        if crew is None:
            crew = RayCrew(shape, self._config, lambda: self._make_room(shape), self._count)
            self._crews[shape] = crew
            await crew.start()
        return await crew.compile(job, started)

    def promote(self, key: str) -> None:
        """See ``Pool.promote``."""
        for crew in self._crews.values():
            crew.promote(key)

    def status(self) -> PoolStatus:
        """See ``Pool.status``; sums over all shapes."""
        total = PoolStatus(kind=RayCrew.kind)
        notes = []
        total.devices = int(self._free_gpus // self._config.num_gpus)
        for shape, crew in self._crews.items():
            one = crew.status()
            total.max_workers += one.max_workers
            total.starting += one.starting
            total.idle += one.idle
            total.busy += one.busy
            total.queued += one.queued
            total.devices += (one.idle + one.busy) * shape.needs_device
            total.crashes += one.crashes
            notes += [one.note] if one.note else []
        total.note = "; ".join(dict.fromkeys(notes))
        total.cluster.worker_failures.update(self._failures)
        return total

    async def stop(self) -> None:
        """End all actors."""
        for crew in self._crews.values():
            await crew.stop(0)

    def _count(self, reason: WorkerFailure) -> None:
        self._failures[reason] += 1

    def _make_room(self, needing: Shape) -> None:
        for shape, crew in self._crews.items():
            if shape != needing:
                crew.let_one_go()
