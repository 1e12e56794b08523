"""A registry in this process: workers that do as they are told, and a way to it that can break."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker.pool import Compiled, Job, Outcome, Place, failed
from inductord.worker.registry import Registry, RegistryLimits
from inductord.worker.registry_client import ArtifactGone, Unreachable
from inductord.worker.registry_messages import Batch, Produced, Request
from inductord.worker.singleflight import Limits

LIMITS = RegistryLimits(flights=Limits(max_keys=1000, max_waiters=100_000))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Workers:
    """Stands for a cluster's workers: any number of compiles at once, each held until ``go`` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.jobs: list[Job] = []
        self.promoted: list[str] = []
        self.endings: list[Outcome] = []
        """How the next compiles end; those after that end well."""

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        self.jobs.append(job)
        started()
        await self.go.wait()
        if self.endings:
            return self.endings.pop(0)
        artifact = f"artifact of {job.key}".encode()
        return Compiled(b"", 1.0, {"compile": 1.0}, place=Place(artifact, len(artifact)))

    def promote(self, key: str) -> None:
        self.promoted.append(key)

    def status(self) -> PoolStatus:
        return PoolStatus(kind="ray")


@dataclasses.dataclass
class Line:
    """A transport to ``registry``. ``cut``: every call fails. ``lose_polls``: so many answers get lost on their way."""

    registry: Registry
    cut: bool = False
    lose_polls: int = 0
    gone: set[str] = dataclasses.field(default_factory=set)

    async def hello(self, session: str) -> str:
        self._check()
        return self.registry.hello(session)

    async def submit(self, session: str, requests: Sequence[Request]) -> None:
        self._check()
        self.registry.submit(session, requests)

    async def poll(self, session: str, have: int, timeout: float) -> Batch:
        self._check()
        registry = self.registry
        polling = asyncio.create_task(registry.poll(session, have, timeout))
        while not polling.done():
            await asyncio.wait({polling}, timeout=0.02)
            if self.cut or self.registry is not registry:
                polling.cancel()
                raise Unreachable("the actor died")
        batch = await polling
        if batch.events and self.lose_polls:
            self.lose_polls -= 1
            return Batch([], have, batch.status)
        return batch

    async def read(self, produced: Produced) -> memoryview:
        self._check()
        if produced.name in self.gone:
            raise ArtifactGone("its node died")
        data = produced.place.at
        assert isinstance(data, bytes)
        return memoryview(data)

    def _check(self) -> None:
        if self.cut:
            raise Unreachable("cut")


def new_registry(workers: Workers, clock: Callable[[], float], limits: RegistryLimits = LIMITS) -> Registry:
    """A registry whose object store is this process."""
    return Registry(workers, limits, clock, lambda graph: graph)


def worker_died() -> Outcome:
    """A compile that another try may do better."""
    return failed(FailureKind.FAILURE_KIND_WORKER_DIED, "died", retryable=True)
