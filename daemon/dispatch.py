"""Carries out what single-flight decides: asks for graphs, hands them to the pool, publishes, answers who waits.

The only place that holds single-flight, the graphs, the pool's tasks and the clients' outboxes together. Everything runs
on the event loop. A client that goes away never touches the compile that others wait for: compiles are tasks of their own.
"""

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import logging
import time
import weakref
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, assert_never

from inductord.compiler.otel import NoSpans
from inductord.daemon.accounts import Accounts
from inductord.daemon.blobs import Lent, Outgoing
from inductord.daemon.devices import WorkerDevices
from inductord.daemon.graphs import GraphBuffer
from inductord.daemon.ledger import Ledger
from inductord.daemon.orders import Order
from inductord.daemon.outbox import Delivery, Outbox
from inductord.daemon.read_through import ReadThrough
from inductord.daemon.store import ArtifactTooLarge, Meta, Store
from inductord.daemon.tenancy import short
from inductord.daemon.tracing import CompileTrace, Traces
from inductord.v1.bridge_pb2 import ORIGIN_COMPILED
from inductord.v1.compiler_pb2 import (
    FAILURE_KIND_POOL_UNAVAILABLE,
    FAILURE_KIND_TOO_LARGE,
    FAILURE_KIND_UNLOADABLE,
    KEY_STATE_STORED,
    SERVED_HIT,
    SERVED_LED,
    BlobHeader,
    CompileFailure,
    KeyState,
    Served,
)
from inductord.worker.pool import Compiled, Failed, Job, Outcome, Pool, Priority, failed
from inductord.worker.singleflight import (
    Abandon,
    Action,
    AskGraph,
    Deliver,
    Dispatch,
    Fail,
    FlightInfo,
    Forget,
    Reject,
    SingleFlight,
    Tell,
)

if TYPE_CHECKING:
    # Needs libraries that only daemons with a shared store have.
    from inductord.daemon.shared.store import SharedStore

_log = logging.getLogger("inductord.dispatch")

_NAMED_RANKS = 16


class Waiter:
    """One client that waits. ``outbox``: what to tell it."""

    __slots__ = ("id", "order", "outbox")

    def __init__(self, number: int, order: Order) -> None:
        self.id = number
        self.order = order
        self.outbox = Outbox()


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """A flight with the order that it is for. ``waiting_ranks``: the first of those that wait."""

    flight: FlightInfo
    order: Order
    waiting_ranks: tuple[int, ...] = ()


class Dispatcher:
    """See the module's docstring. ``max_artifact_bytes``: a larger artifact fails its compile."""

    def __init__(
        self,
        *,
        flights: SingleFlight,
        store: Store,
        pool: Pool,
        graphs: GraphBuffer,
        accounts: Accounts,
        max_artifact_bytes: int,
        shared: "SharedStore | None" = None,
        traces: Traces | None = None,
    ) -> None:
        self.graphs = graphs
        self.devices = WorkerDevices(pool.status, time.monotonic)
        self._flights = flights
        self._store = store
        self._pool = pool
        self._accounts = accounts
        self._max_artifact_bytes = max_artifact_bytes
        self._shared = shared
        self._traces = traces or Traces(NoSpans())
        self._elsewhere = ReadThrough(self._find_elsewhere, self._found_elsewhere)
        self._ids = itertools.count(1)
        self._waiters: dict[int, Waiter] = {}
        self._orders: dict[str, Order] = {}
        # Keys that somebody waits or waited for, of those on their way.
        self._urgent: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._abandoned: set[asyncio.Task[None]] = set()
        # Whoever sends the same artifact at the same time shares its chunks.
        self._outgoing: weakref.WeakValueDictionary[str, Outgoing] = weakref.WeakValueDictionary()
        self._forgotten = asyncio.Event()

    # What is stored

    def stored(self, key: str) -> bool:
        """Whether ``load`` may find it. No I/O: call it in the same tick as `wait`."""
        return self._store.find(key) is not None

    @contextlib.contextmanager
    def pinned(self, key: str) -> Iterator[None]:
        """Keeps a stored artifact from being evicted while it is sent."""
        with self._store.pin(key):
            yield

    def lend(self, key: str) -> Lent | None:
        """The stored artifact as a file; None when it is in memory only."""
        entry = self._store.lend(key)
        if entry is None:
            return None
        record, path = entry
        return Lent(BlobHeader(size=record.size, sha256=record.sha256), record.meta.compile_seconds, str(path))

    async def load(self, key: str) -> Outgoing | None:
        """The stored artifact; None when it is gone or was corrupt. Concurrent loads share one read and its chunks."""
        entry = await self._store.read(key)
        if entry is None:
            return None
        record, data = entry
        return self._share(key, data, record.sha256, record.meta.compile_seconds)

    def _share(self, key: str, data: bytes, digest: bytes, compile_seconds: float) -> Outgoing:
        outgoing = self._outgoing.get(key)
        if outgoing is None or outgoing.header.sha256 != digest:
            outgoing = Outgoing(data, digest, compile_seconds)
            self._outgoing[key] = outgoing
        return outgoing

    def state(self, key: str) -> KeyState:
        """What a lookup answers for ``key``."""
        return KEY_STATE_STORED if self.stored(key) else self._flights.state(key)

    # Clients

    @contextlib.contextmanager
    def wait(self, order: Order) -> Iterator[Waiter]:
        """Wait for an artifact that is not stored. Leaving the context ends the wait, answered or not."""
        waiter = Waiter(next(self._ids), order)
        self._waiters[waiter.id] = waiter
        try:
            self._perform(self._flights.open(waiter.id, order.key))
            self._urge(order)
            yield waiter
        finally:
            self._perform(self._flights.cancel(waiter.id))
            del self._waiters[waiter.id]

    def _urge(self, order: Order) -> None:
        """A rank that waits for what was submitted ahead of time lifts it above what nobody waits for."""
        if order.speculative or order.key not in self._orders or order.key in self._urgent:
            return
        self._urgent.add(order.key)
        if order.key in self._tasks:
            self._pool.promote(order.plain_key)

    def uploaded(self, waiter: Waiter, graph: bytes) -> None:
        """The graph that ``waiter`` was asked for. Call it within the reservation of its bytes."""
        actions = self._flights.uploaded(waiter.id)
        if actions:
            self._ledger(waiter.order).uploaded(len(graph))
            self.graphs.put(waiter.order.key, graph)
        self._perform(actions)

    async def compiled_by_client(self, waiter: Waiter, artifact: bytes, seconds: float) -> None:
        """The artifact that ``waiter``, asked for a graph, made of it by itself. Those who wait for it are served."""
        order, compiled, ledger = waiter.order, Compiled(artifact, seconds), self._ledger(waiter.order)
        ledger.compiling(order)
        ledger.compiled(order, compiled)
        published = await self._publish(order, compiled)
        if isinstance(published, Failed):
            self._perform(self._flights.refused(waiter.id, published.failure))
            return
        actions = self._flights.finished(order.key)
        led = [
            dataclasses.replace(action, served=SERVED_LED)
            if isinstance(action, Deliver) and action.waiter == waiter.id
            else action
            for action in actions
        ]
        self._perform(led, published)

    def refused(self, waiter: Waiter, reason: str) -> None:
        """``waiter`` cannot give the graph; somebody else is asked."""
        failure = CompileFailure(kind=FAILURE_KIND_UNLOADABLE, message=f"the rank could not give the graph: {reason}")
        self._perform(self._flights.refused(waiter.id, failure))

    def progress(self, waiter: Waiter) -> Tell | None:
        """Where the waiter's compile stands; None when it was answered."""
        return self._flights.progress(waiter.id)

    # The daemon

    def running(self) -> list[Running]:
        """All flights, oldest first."""
        waiting: dict[str, list[int]] = {}
        for waiter in self._waiters.values():
            ranks = waiting.setdefault(waiter.order.key, [])
            if len(ranks) < _NAMED_RANKS:
                ranks.append(waiter.order.rank)
        return [
            Running(flight, self._orders[flight.key], tuple(waiting.get(flight.key, ())))
            for flight in self._flights.flights()
        ]

    def waiting_by_job(self) -> collections.Counter[tuple[str, str]]:
        """How many clients of each job wait, by tenant and job."""
        return collections.Counter((waiter.order.tenant, waiter.order.job) for waiter in self._waiters.values())

    @property
    def waiting(self) -> int:
        """How many clients wait."""
        return len(self._waiters)

    def waiting_ranks(self) -> dict[str, int]:
        """How many ranks of each job wait."""
        return collections.Counter(job for job, _ in {(w.order.job, w.order.rank) for w in self._waiters.values()})

    def drain(self) -> None:
        """Take no more requests for what is not stored; running compiles go on."""
        self._perform(self._flights.drain())

    async def drained(self) -> None:
        """Wait until no compile is left."""
        while self._orders:
            self._forgotten.clear()
            await self._forgotten.wait()

    async def abort(self) -> None:
        """Give up what is left and wait until the pool let go of it."""
        self._perform(self._flights.abort())
        await self._elsewhere.close()
        if leftover := {*self._tasks.values(), *self._abandoned}:
            await asyncio.wait(leftover)

    def _ledger(self, order: Order) -> Ledger:
        return self._accounts.of(order.tenant).ledger

    # The pool

    async def _compile(self, order: Order) -> None:
        key = order.key
        priority = Priority.WAITED_FOR if key in self._urgent else Priority.SPECULATIVE
        # The worker knows the key that the rank made, and nothing of tenants' keys.
        with self._traces.compile(order) as traced:
            job = Job(
                order.plain_key,
                self.graphs.get(key),
                order.toolchain,
                priority,
                order.tenant,
                traced.traceparent,
                needs_device=order.needs_device,
            )
            outcome = await self._run(job, order, traced)
            published = await self._ended(order, outcome, traced)
            # Gone from here before single-flight hears of it: it may dispatch the same key again.
            del self._tasks[key]
            if isinstance(published, Failed):
                _log.warning("%s of job %r failed: %s", short(key), order.job, published.failure.message)
                by_rank = partial(self.devices.rank_shall_compile, order, published.failure)
                self._perform(self._flights.failed(key, published.failure, published.retryable, by_rank))
            else:
                ours = isinstance(outcome, Compiled) and outcome.origin == ORIGIN_COMPILED
                self._perform(self._flights.finished(key, ours), published)

    async def _run(self, job: Job, order: Order, traced: CompileTrace) -> Outcome:
        def started() -> None:
            traced.started()
            self._ledger(order).compiling(order)
            self._perform(self._flights.started(order.key))

        try:
            return await self._pool.compile(job, started)
        except Exception as error:  # noqa: BLE001 -- a defect must not leave waiters hanging; logged with its traceback
            _log.exception("the pool broke its promise not to raise, on %s", short(order.key))
            return failed(FAILURE_KIND_POOL_UNAVAILABLE, f"a defect of the pool, logged by the daemon: {error}")

    async def _ended(self, order: Order, outcome: Outcome, traced: CompileTrace) -> Outgoing | Failed:
        try:
            self._ledger(order).compiled(order, outcome)
            traced.ended(outcome)
            return await self._publish(order, outcome) if isinstance(outcome, Compiled) else outcome
        except Exception as error:  # noqa: BLE001 -- as in _run; without threads or memory, say, nothing can be stored
            _log.exception("what %s was compiled to could not be published", short(order.key))
            return failed(FAILURE_KIND_POOL_UNAVAILABLE, f"the daemon could not publish it: {error}")

    async def _publish(self, order: Order, compiled: Compiled) -> Outgoing | Failed:
        data = compiled.artifact
        if len(data) > self._max_artifact_bytes:
            return failed(
                FAILURE_KIND_TOO_LARGE,
                f"the artifact has {len(data)} bytes and max_artifact_bytes is {self._max_artifact_bytes}.",
            )
        meta = Meta(
            kind=order.kind,
            compile_seconds=compiled.compile_seconds,
            toolchain=order.toolchain,
            key_parts=order.key_parts,
            nodes=order.nodes,
            job=order.job,
        )
        try:
            record = await self._store.publish(order.key, data, meta)
        except ArtifactTooLarge as error:
            return failed(FAILURE_KIND_TOO_LARGE, str(error))
        if self._shared is not None:
            self._shared.offer(order.plain_key, order.tenant, data, record.sha256, meta)
        return self._share(order.key, data, record.sha256, compiled.compile_seconds)

    # The shared store

    async def _find_elsewhere(self, order: Order) -> Outgoing | None:
        if self._shared is None or (found := await self._shared.fetch(order.plain_key, order.tenant)) is None:
            return None
        try:
            record = await self._store.publish(order.key, found.content, found.meta())
        except ArtifactTooLarge as error:
            _log.warning("%s of the shared store is of no use here: %s", short(order.key), error)
            return None
        return self._share(order.key, found.content, record.sha256, record.meta.compile_seconds)

    def _found_elsewhere(self, key: str, artifact: Outgoing) -> None:
        # To whoever waited it was stored: nothing was compiled for this.
        self._perform(self._flights.finished(key), artifact, served=SERVED_HIT)

    # Single-flight's actions

    def _perform(self, actions: list[Action], artifact: Outgoing | None = None, served: "Served | None" = None) -> None:
        for action in actions:
            match action:
                case AskGraph():
                    waiter = self._waiters[action.waiter]
                    # Whose graph it is, is whose compile it is.
                    self._orders[waiter.order.key] = waiter.order
                    self.graphs.forget(waiter.order.key)
                    if self._shared is None:
                        waiter.outbox.put(action)
                    else:
                        self._elsewhere.ask(waiter.order, partial(waiter.outbox.put, action))
                case Tell() | Fail() | Reject():
                    self._waiters[action.waiter].outbox.put(action)
                case Deliver():
                    assert artifact is not None, "delivered before it was published"
                    waiter = self._waiters[action.waiter]
                    self._traces.delivered(waiter.order)
                    waiter.outbox.put(Delivery(served or action.served, artifact))
                case Dispatch():
                    order = self._orders[action.key]
                    self._ledger(order).queued(order, action.attempt)
                    self._tasks[action.key] = asyncio.create_task(
                        self._compile(self._orders[action.key]), name=f"compile {short(action.key)} #{action.attempt}"
                    )
                case Abandon():
                    order = self._orders[action.key]
                    self._ledger(order).abandoned(order)
                    self._abandon(self._tasks.pop(action.key))
                case Forget():
                    self.graphs.forget(action.key)
                    self._elsewhere.forget(action.key)
                    del self._orders[action.key]
                    self._urgent.discard(action.key)
                    self._forgotten.set()
                case _:
                    assert_never(action)

    def _abandon(self, task: asyncio.Task[None]) -> None:
        # Held until it ended: the event loop itself keeps no strong reference.
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)
        task.cancel()
