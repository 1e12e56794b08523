"""The registry: single-flight for a whole cluster. Its requesters are daemons, and what it passes on is where things are.

It runs in one actor of the cluster and knows no Ray: workers come as a pool, graphs are kept by a function. Everything
happens on one event loop. It holds no artifact, only the places of the newest ones, so that a daemon that asks a little
later than the others finds it. A daemon that falls silent is treated as gone; if it was the leader, another one is.
"""

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import logging
import resource
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol, assert_never

from inductord.v1.admin_pb2 import ClusterStatus, PoolStatus
from inductord.v1.bridge_pb2 import ORIGIN_COMPILED, ORIGIN_FOUND, ORIGIN_JOINED
from inductord.v1.compiler_pb2 import (
    COMPILE_STATE_COMPILING,
    FAILURE_KIND_POOL_UNAVAILABLE,
    SERVED_LED,
    CompileFailure,
    Toolchain,
)
from inductord.worker.pool import Compiled, Job, Outcome, Priority, failed
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
from inductord.worker.singleflight import (
    Abandon,
    Action,
    AskGraph,
    Deliver,
    Dispatch,
    Fail,
    Forget,
    Limits,
    Reject,
    SingleFlight,
    Tell,
)

_log = logging.getLogger("inductord.registry")


class Compilers(Protocol):
    """What the registry needs of a pool."""

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``. Both graph and artifact are places."""

    def promote(self, key: str) -> None:
        """See ``Pool.promote``."""

    def status(self) -> PoolStatus:
        """See ``Pool.status``."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RegistryLimits:
    """Bounds. ``lease``: seconds of silence after which a daemon counts as gone. ``kept_bytes``, ``kept_artifacts``: what the
    object store holds for daemons that ask later; the least recently asked for go first.
    """

    flights: Limits
    lease: float = 20.0
    kept_bytes: int = 1 << 30
    kept_artifacts: int = 10_000


class _Session:
    """One daemon."""

    def __init__(self, now: float) -> None:
        self.seen = now
        self.waiters: dict[int, int] = {}
        self.events: collections.deque[tuple[int, Event]] = collections.deque()
        self.filled = asyncio.Event()
        self._numbers = itertools.count(1)

    def put(self, event: Event) -> None:
        self.events.append((next(self._numbers), event))
        self.filled.set()

    def forget_until(self, number: int) -> None:
        while self.events and self.events[0][0] <= number:
            self.events.popleft()
        if not self.events:
            self.filled.clear()


@dataclasses.dataclass(slots=True)
class _Waiter:
    session: str
    ask: Ask


class Registry:
    """See the module's docstring. ``keep``: puts a graph where all workers can read it and returns its place."""

    def __init__(
        self,
        compilers: Compilers,
        limits: RegistryLimits,
        clock: Callable[[], float],
        keep: Callable[[bytes], object],
    ) -> None:
        self.incarnation = uuid.uuid4().hex[:12]
        self._compilers = compilers
        self._limits = limits
        self._clock = clock
        self._keep = keep
        self._began = clock()
        self._flights = SingleFlight(limits.flights, clock)
        self._ids = itertools.count(1)
        self._sessions: dict[str, _Session] = {}
        self._waiters: dict[int, _Waiter] = {}
        # Of keys on their way: who asked in the name of all, the graph, the compile, and whether somebody waits for it.
        self._leads: dict[str, Ask] = {}
        self._graphs: dict[str, object] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._abandoned: set[asyncio.Task[None]] = set()
        self._urgent: set[str] = set()
        self._kept: collections.OrderedDict[str, Produced] = collections.OrderedDict()
        self._kept_bytes = 0
        self._counts = ClusterStatus(registry=self.incarnation)

    # Daemons

    def hello(self, session: str) -> str:
        """A daemon comes, under a name of its own that it never uses again. Returns this registry's incarnation."""
        self._sessions.setdefault(session, _Session(self._clock()))
        return self.incarnation

    def submit(self, session: str, requests: Sequence[Request]) -> None:
        """What a daemon wants.

        Raises:
            SessionUnknown: say hello, and everything that is still wanted again.
        """
        known = self._known(session)
        for request in requests:
            match request:
                case Ask():
                    self._ask(session, known, request)
                case Give():
                    self._given(known, request)
                case Leave():
                    if (waiter := known.waiters.pop(request.ticket, None)) is not None:
                        self._leave(waiter)
                case Promote():
                    if (waiter := known.waiters.get(request.ticket)) is not None:
                        self._urge(self._waiters[waiter].ask.scoped)
                case _:
                    assert_never(request)

    async def poll(self, session: str, have: int, timeout: float) -> Batch:
        """Events for a daemon that has those up to number ``have``; at most ``timeout`` seconds later, perhaps none.

        Raises:
            SessionUnknown: as ``submit``.
        """
        known = self._known(session)
        known.forget_until(have)
        if not known.events:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await known.filled.wait()
        known.seen = self._clock()
        events = list(known.events)
        last = events[-1][0] if events else have
        return Batch([event for _, event in events], last, self.status().SerializeToString())

    def expire(self) -> None:
        """Let go of daemons that fell silent. Call it every few seconds."""
        now = self._clock()
        for name, session in list(self._sessions.items()):
            if now - session.seen > self._limits.lease:
                if session.waiters:
                    self._counts.silent_daemons += 1
                    _log.warning("a daemon fell silent with %d requests open", len(session.waiters))
                del self._sessions[name]
                for waiter in session.waiters.values():
                    self._leave(waiter)

    def status(self) -> PoolStatus:
        """Of the workers; with counts since the start, and what there is now."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        counts = self._counts
        counts.uptime_seconds = self._clock() - self._began
        counts.cpu_seconds = usage.ru_utime + usage.ru_stime
        counts.daemons = len(self._sessions)
        counts.flights = len(self._leads)
        counts.waiting = len(self._waiters)
        counts.kept_artifacts = len(self._kept)
        counts.kept_bytes = self._kept_bytes
        status = self._compilers.status()
        status.cluster.MergeFrom(counts)
        return status

    def _known(self, name: str) -> _Session:
        session = self._sessions.get(name)
        if session is None:
            raise SessionUnknown(name)
        session.seen = self._clock()
        return session

    # Requests

    def _ask(self, name: str, session: _Session, ask: Ask) -> None:
        if ask.ticket in session.waiters:
            return
        kept = self._kept.get(ask.scoped)
        if kept is not None and kept.name == ask.lost:
            _log.warning("the artifact of %.12s was lost with its node; it is compiled again", ask.key)
            self._counts.lost_artifacts += 1
            self._drop(ask.scoped)
            kept = None
        if kept is not None:
            self._kept.move_to_end(ask.scoped)
            self._counts.found += 1
            session.put(Done(ask.ticket, ORIGIN_FOUND, kept))
            return
        waiter = next(self._ids)
        self._waiters[waiter] = _Waiter(name, ask)
        session.waiters[ask.ticket] = waiter
        self._perform(self._flights.open(waiter, ask.scoped))
        if not ask.speculative:
            self._urge(ask.scoped)

    def _given(self, session: _Session, give: Give) -> None:
        waiter = session.waiters.get(give.ticket)
        if waiter is None:
            return
        key = self._waiters[waiter].ask.scoped
        # Kept only if this is the graph that is waited for; single-flight knows.
        if actions := self._flights.uploaded(waiter):
            self._graphs[key] = self._keep(give.graph)
            self._perform(actions)

    def _urge(self, key: str) -> None:
        if key not in self._leads or key in self._urgent:
            return
        self._urgent.add(key)
        if key in self._tasks:
            self._compilers.promote(self._leads[key].key)

    def _leave(self, waiter: int) -> None:
        if self._waiters.pop(waiter, None) is not None:
            self._perform(self._flights.cancel(waiter))

    # Compiles

    async def _compile(self, ask: Ask, graph: object) -> None:
        key = ask.scoped
        outcome = await self._run(
            key,
            Job(
                key=ask.key,
                tenant=ask.tenant,
                graph=b"",
                toolchain=Toolchain.FromString(ask.toolchain),
                priority=Priority.WAITED_FOR if key in self._urgent else Priority.SPECULATIVE,
                needs_device=ask.needs_device,
                traceparent=ask.traceparent,
                place=graph,
            ),
        )
        # Gone from here before single-flight hears of it: it may dispatch the same key again.
        del self._tasks[key]
        if isinstance(outcome, Compiled):
            assert outcome.place is not None, "an artifact of the cluster is left in its object store"
            produced = Produced(
                uuid.uuid4().hex, outcome.place, outcome.compile_seconds, dict(outcome.phases), outcome.worker
            )
            self._perform(self._flights.finished(key), produced)
        else:
            self._perform(self._flights.failed(key, outcome.failure, outcome.retryable))

    async def _run(self, key: str, job: Job) -> Outcome:
        def started() -> None:
            self._counts.compiles += 1
            self._perform(self._flights.started(key))

        try:
            return await self._compilers.compile(job, started)
        except Exception as error:  # noqa: BLE001 -- a defect must not leave daemons hanging; logged with its traceback
            _log.exception("the cluster's workers broke their promise not to raise, on %.12s", job.key)
            return failed(FAILURE_KIND_POOL_UNAVAILABLE, f"a defect of the registry, logged there: {error}")

    def _perform(self, actions: list[Action], produced: Produced | None = None) -> None:
        for action in actions:
            match action:
                case AskGraph():
                    ask = self._waiters[action.waiter].ask
                    self._leads[ask.scoped] = ask
                    self._tell(action.waiter, WantGraph(ask.ticket))
                case Tell():
                    ask = self._waiters[action.waiter].ask
                    if action.state == COMPILE_STATE_COMPILING and self._leads[ask.scoped] is ask:
                        self._tell(action.waiter, Started(ask.ticket))
                case Deliver():
                    assert produced is not None, "delivered before it was produced"
                    led = action.served == SERVED_LED
                    self._counts.led += led
                    self._counts.joined += not led
                    self._end(action.waiter, Done, ORIGIN_COMPILED if led else ORIGIN_JOINED, produced)
                case Fail():
                    self._counts.failed += 1
                    self._end(action.waiter, Failure, action.failure.SerializeToString())
                case Reject():
                    message = f"the cluster's registry takes no more requests: {action.reason}"
                    failure = CompileFailure(kind=FAILURE_KIND_POOL_UNAVAILABLE, message=message)
                    self._counts.failed += 1
                    self._end(action.waiter, Failure, failure.SerializeToString())
                case Dispatch():
                    self._counts.retries += action.attempt > 1
                    self._tasks[action.key] = asyncio.get_running_loop().create_task(
                        self._compile(self._leads[action.key], self._graphs[action.key]),
                        name=f"compile {action.key[:12]} #{action.attempt}",
                    )
                case Abandon():
                    self._abandon(self._tasks.pop(action.key))
                case Forget():
                    if produced is not None:
                        self._remember(action.key, produced)
                    self._graphs.pop(action.key, None)
                    del self._leads[action.key]
                    self._urgent.discard(action.key)
                case _:
                    assert_never(action)

    def _tell(self, waiter: int, event: Event) -> None:
        if session := self._sessions.get(self._waiters[waiter].session):
            session.put(event)

    def _end(self, waiter: int, kind: Callable[..., Done | Failure], *fields: object) -> None:
        gone = self._waiters.pop(waiter)
        if session := self._sessions.get(gone.session):
            session.waiters.pop(gone.ask.ticket, None)
            session.put(kind(gone.ask.ticket, *fields))

    def _abandon(self, task: asyncio.Task[None]) -> None:
        # Held until it ended: the event loop itself keeps no strong reference.
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
        task.cancel()

    # Artifacts

    def _remember(self, key: str, produced: Produced) -> None:
        self._drop(key)
        self._kept[key] = produced
        self._kept_bytes += produced.place.size
        while self._kept_bytes > self._limits.kept_bytes or len(self._kept) > self._limits.kept_artifacts:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        if (gone := self._kept.pop(key, None)) is not None:
            self._kept_bytes -= gone.place.size
