"""A daemon's side of the registry: one request for each graph, one question after news for all of them.

It knows no Ray: how the registry is reached and an artifact is read comes as a ``Transport``. When the registry was started
anew, or took this side for dead, it asks again for everything that is still wanted, under the same keys; a compile that
others wait for is then joined. When the registry cannot be reached for ``Patience.reattach`` seconds, every request ends with
POOL_UNAVAILABLE and ``lost`` says why.
"""

import asyncio
import dataclasses
import itertools
import logging
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.bridge_pb2 import ORIGIN_COMPILED
from inductord.v1.compiler_pb2 import FAILURE_KIND_POOL_UNAVAILABLE, CompileFailure
from inductord.worker.pool import Compiled, Failed, Job, Outcome, Place, Priority, failed
from inductord.worker.registry_messages import (
    Ask,
    Batch,
    Done,
    Event,
    Failure,
    Give,
    Leave,
    Produced,
    Promote,
    Request,
    SessionUnknown,
    Started,
    WantGraph,
)

_log = logging.getLogger("inductord.pool")

# An artifact that is lost so often is not worth another compile.
_MOST_LOSSES = 3


class Unreachable(Exception):
    """The registry did not answer, or died. The message says what is known."""


class ArtifactGone(Exception):
    """The object store lost an artifact, with the node that had it."""


class Transport(Protocol):
    """The way to a registry. Each call ends within its bound, or raises ``Unreachable``."""

    async def hello(self, session: str) -> str:
        """Find the registry, or make one, and say hello. Returns its incarnation."""

    async def submit(self, session: str, requests: Sequence[Request]) -> None:
        """See ``Registry.submit``."""

    async def poll(self, session: str, have: int, timeout: float) -> Batch:
        """See ``Registry.poll``."""

    async def read(self, produced: Produced) -> bytes | memoryview:
        """The bytes of an artifact. Raises ``ArtifactGone``."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """Seconds. ``poll``: after which a question for news is answered at the latest. ``reattach``: how long a registry that went
    away is looked for; ``again``: between two tries.
    """

    poll: float = 1.0
    reattach: float = 20.0
    again: float = 0.5


@dataclasses.dataclass(slots=True, eq=False)
class _Wanted:
    job: Job
    started: Callable[[], None]
    ending: "asyncio.Future[Done | Failure]"
    lost: str


class _Once:
    """Calls a function the first time only."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class RegistryClient:
    """``start`` comes first, ``close`` last. Everything runs on one event loop."""

    def __init__(self, transport: Transport, patience: Patience | None = None) -> None:
        self._transport = transport
        self._patience = patience or Patience()
        self._session = ""
        self._incarnation = ""
        self._tickets = itertools.count(1)
        self._wanted: dict[int, _Wanted] = {}
        self._outbox: list[Request] = []
        self._filled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._status = PoolStatus()
        self._reattached = 0
        self._attaching = asyncio.Lock()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the registry is given up."""

    async def start(self) -> None:
        """Say hello. Raises ``Unreachable``."""
        await self._hello()
        self._tasks = [
            asyncio.create_task(self._guarded(self._listen), name="registry: news"),
            asyncio.create_task(self._guarded(self._speak), name="registry: requests"),
        ]

    async def close(self) -> None:
        """Let go of everything. Whoever still waits gets POOL_UNAVAILABLE."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._give_up("the connection to the cluster was closed")

    def status(self) -> PoolStatus:
        """Of the cluster's workers and registry, as last heard."""
        status = PoolStatus()
        status.CopyFrom(self._status)
        status.cluster.reattached = self._reattached
        return status

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``. The artifact's place is the object store's own memory, where this machine has it."""
        once = _Once(started)
        lost = ""
        for _ in range(_MOST_LOSSES):
            ending = await self._ask(job, once, lost)
            if isinstance(ending, Failure):
                return Failed(CompileFailure.FromString(ending.failure))
            produced = ending.produced
            if ending.origin == ORIGIN_COMPILED:
                once()  # The one that gave the graph went away in mid-compile, and this is the next in line.
            try:
                artifact = await self._transport.read(produced)
            except ArtifactGone as error:
                _log.warning("the artifact of %.12s is gone from the cluster: %s", job.key, error)
                lost = produced.name
                continue
            except Unreachable as error:
                return failed(FAILURE_KIND_POOL_UNAVAILABLE, f"the artifact cannot be read from the cluster: {error}")
            place = Place(artifact, produced.place.size)
            return Compiled(
                b"", produced.compile_seconds, produced.phases, produced.worker, origin=ending.origin, place=place
            )
        return failed(FAILURE_KIND_POOL_UNAVAILABLE, f"the cluster lost the artifact {_MOST_LOSSES} times")

    def promote(self, key: str) -> None:
        """See ``Pool.promote``."""
        for ticket, wanted in self._wanted.items():
            if wanted.job.key == key:
                wanted.job = dataclasses.replace(wanted.job, priority=Priority.WAITED_FOR)
                self._say(Promote(ticket))

    async def _ask(self, job: Job, started: Callable[[], None], lost: str) -> Done | Failure:
        ticket = next(self._tickets)
        if self.lost.done():
            return _unavailable(ticket, self.lost.result())
        wanted = _Wanted(job, started, asyncio.get_running_loop().create_future(), lost)
        self._wanted[ticket] = wanted
        self._say(self._asking(ticket, wanted))
        try:
            return await wanted.ending
        finally:
            del self._wanted[ticket]
            if not wanted.ending.done() or wanted.ending.cancelled():
                self._say(Leave(ticket))

    @staticmethod
    def _asking(ticket: int, wanted: _Wanted) -> Ask:
        job = wanted.job
        return Ask(
            ticket,
            job.key,
            job.toolchain.SerializeToString(),
            speculative=job.priority == Priority.SPECULATIVE,
            needs_device=job.needs_device,
            lost=wanted.lost,
            tenant=job.tenant,
            traceparent=job.traceparent,
        )

    def _say(self, request: Request) -> None:
        self._outbox.append(request)
        self._filled.set()

    async def _guarded(self, loop: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await loop()
        except Exception as error:  # noqa: BLE001 -- nobody may be left waiting; logged unless it is the known end
            if not isinstance(error, Unreachable):
                _log.exception("a defect in speaking with the registry")
            self._give_up(str(error) or type(error).__name__)

    async def _speak(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            requests, self._outbox = self._outbox, []
            session = self._session
            try:
                await self._transport.submit(session, requests)
            except (Unreachable, SessionUnknown) as error:
                # All that is still wanted is asked for again, so nothing of these is needed.
                await self._reattach(session, error)

    async def _listen(self) -> None:
        have, session = 0, self._session
        while True:
            if session != self._session:
                have, session = 0, self._session
            try:
                batch = await self._transport.poll(session, have, self._patience.poll)
            except (Unreachable, SessionUnknown) as error:
                await self._reattach(session, error)
                continue
            if session == self._session:
                have = batch.last
                self._status.ParseFromString(batch.status)
                for event in batch.events:
                    self._hear(event)

    def _hear(self, event: Event) -> None:
        wanted = self._wanted.get(event.ticket)
        if wanted is None or wanted.ending.done():
            return
        match event:
            case WantGraph():
                self._say(Give(event.ticket, wanted.job.graph))
            case Started():
                wanted.started()
            case Done() | Failure():
                wanted.ending.set_result(event)

    # The registry went away

    async def _hello(self) -> None:
        session = uuid.uuid4().hex
        self._incarnation = await self._transport.hello(session)
        self._session = session

    async def _reattach(self, broken: str, why: Exception) -> None:
        """Find the registry again and ask it for all that is wanted.

        Raises:
            Unreachable: it was not found in time.
        """
        async with self._attaching:
            if self._session != broken:
                return  # The other task did it.
            _log.warning("the registry of the cluster is gone, looking for it: %s", why or type(why).__name__)
            deadline = time.monotonic() + self._patience.reattach
            while True:
                try:
                    async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
                        await self._hello()
                    break
                except (Unreachable, TimeoutError) as error:
                    if time.monotonic() + self._patience.again >= deadline:
                        raise Unreachable(
                            f"the registry was not found again within {self._patience.reattach:g} s: {error or why}"
                        ) from error
                    await asyncio.sleep(self._patience.again)
            self._reattached += 1
            self._outbox = []
            for ticket, wanted in self._wanted.items():
                self._say(self._asking(ticket, wanted))

    def _give_up(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)
        for ticket, wanted in self._wanted.items():
            if not wanted.ending.done():
                wanted.ending.set_result(_unavailable(ticket, why))


def _unavailable(ticket: int, why: str) -> Failure:
    failure = CompileFailure(kind=FAILURE_KIND_POOL_UNAVAILABLE, message=f"the Ray cluster cannot be used: {why}")
    return Failure(ticket, failure.SerializeToString())
