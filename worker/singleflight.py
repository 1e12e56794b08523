"""Single-flight: of all who ask for one key, one leads its compile and the others join it.

A pure state machine: events in, actions out. It does no I/O, knows no event loop and no store, reads only the injected
clock and takes ids from its caller, so the same class serves a node (waiters are ranks) and a cluster (waiters are
daemons). The caller carries out the actions in order, before it delivers the next event.

A flight is one key on its way:

    open ──▶ UPLOADING ── uploaded ──▶ QUEUED ── started ──▶ COMPILING ── finished / failed ──▶ gone
                 ▲                       ▲                      │
                 │                       └── failed, retryable ─┤
                 └───────────────────────── failed, ask again ──┘

Events may cross on their way here, so an event about a waiter or a key that is gone is no error: it changes nothing.
One duty is the caller's: after ``Abandon`` it reports nothing more of that dispatch, since a flight opened later under
the same key could not tell its events from its own.
"""

import bisect
import dataclasses
import enum
from collections.abc import Callable, Iterable

from inductord.v1.compiler_pb2 import (
    COMPILE_STATE_COMPILING,
    COMPILE_STATE_QUEUED,
    COMPILE_STATE_UPLOADING,
    KEY_STATE_ABSENT,
    KEY_STATE_COMPILING,
    KEY_STATE_FAILED,
    SERVED_JOINED,
    SERVED_LED,
    CompileFailure,
    CompileState,
    KeyState,
    Served,
)
from inductord.worker.failure_memory import FailureMemory


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds. ``max_keys``: flights at once. ``max_waiters``: waiters at once, over all keys. ``attempts``: dispatches
    of one flight. ``failure_ttl``: seconds for which a failure is remembered. ``max_failures``: how many are.
    """

    max_keys: int
    max_waiters: int
    attempts: int = 2
    failure_ttl: float = 300.0
    max_failures: int = 1024


class RejectReason(enum.StrEnum):
    """Why a waiter is sent away without an answer about its graph. Closed: also a metric label."""

    QUEUE_FULL = "queue_full"
    TOO_MANY_WAITERS = "too_many_waiters"
    DRAINING = "draining"
    ABORTED = "aborted"


@dataclasses.dataclass(frozen=True, slots=True)
class AskGraph:
    """This waiter shall upload the graph. One that was uploaded before came to nothing, and nobody needs its bytes."""

    waiter: int


@dataclasses.dataclass(frozen=True, slots=True)
class Tell:
    """Where the waiter's compile stands. ``ahead``: keys dispatched before it and not started."""

    waiter: int
    state: CompileState
    ahead: int


@dataclasses.dataclass(frozen=True, slots=True)
class Dispatch:
    """Hand the graph of ``key`` to the pool. ``attempt`` counts from 1."""

    key: str
    attempt: int


@dataclasses.dataclass(frozen=True, slots=True)
class Deliver:
    """The artifact is published: send it. The waiter is gone from here."""

    waiter: int
    served: Served


@dataclasses.dataclass(frozen=True, slots=True)
class Fail:
    """There is no artifact, for this reason. The waiter is gone from here."""

    waiter: int
    failure: CompileFailure


@dataclasses.dataclass(frozen=True, slots=True)
class Reject:
    """Nothing can be said about the graph. The waiter is gone from here."""

    waiter: int
    reason: RejectReason


@dataclasses.dataclass(frozen=True, slots=True)
class Forget:
    """The flight is over and nobody needs the bytes of its graph. Comes exactly once per flight, as its last action."""

    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class Abandon:
    """Drop what was dispatched: nobody waits and it has not started, or ``abort`` gave it up. ``Forget`` follows."""

    key: str


Action = AskGraph | Tell | Dispatch | Deliver | Fail | Reject | Forget | Abandon


@dataclasses.dataclass(frozen=True, slots=True)
class FlightInfo:
    """One flight as people see it. ``age`` in seconds since it was opened; ``attempt`` is 0 while it is uploaded."""

    key: str
    state: CompileState
    age: float
    waiters: int
    attempt: int


@dataclasses.dataclass(slots=True)
class _Flight:
    key: str
    opened: float
    # Ordered by arrival. The leader, when there is one, is the first.
    waiters: dict[int, None]
    leader: int | None
    state: CompileState = COMPILE_STATE_UPLOADING
    attempt: int = 0
    # Place in the queue of dispatches; meaningful only while QUEUED.
    ticket: int = 0


class SingleFlight:
    """See the module's docstring. Every event returns the actions that it calls for; none raises but for misuse."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._flights: dict[str, _Flight] = {}
        self._key_of: dict[int, str] = {}
        self._failures = FailureMemory(limits.failure_ttl, limits.max_failures, clock)
        # Tickets of QUEUED flights. They are given in rising order: the list stays sorted and "ahead" is a bisection.
        self._queue: list[int] = []
        self._next_ticket = 0
        self._draining = False

    # Events of waiters

    def open(self, waiter: int, key: str) -> list[Action]:
        """``waiter`` wants ``key``, which is not stored. It leads, joins, fails from memory or is rejected.

        Raises:
            ValueError: ``waiter`` is the id of one that waits already.
        """
        if waiter in self._key_of:
            raise ValueError(f"waiter {waiter} waits already")
        if self._draining:
            return [Reject(waiter, RejectReason.DRAINING)]
        if failure := self._failures.recall(key):
            return [Fail(waiter, failure)]
        if len(self._key_of) >= self._limits.max_waiters:
            return [Reject(waiter, RejectReason.TOO_MANY_WAITERS)]
        flight = self._flights.get(key)
        if flight is None:
            if len(self._flights) >= self._limits.max_keys:
                return [Reject(waiter, RejectReason.QUEUE_FULL)]
            self._flights[key] = _Flight(key, self._clock(), {waiter: None}, waiter)
            self._key_of[waiter] = key
            return [AskGraph(waiter)]
        flight.waiters[waiter] = None
        self._key_of[waiter] = key
        return [self._tell(flight, waiter)]

    def uploaded(self, waiter: int) -> list[Action]:
        """The graph is here. Ignored unless ``waiter`` is the one that was asked: it may just have been rejected."""
        flight = self._asked_of(waiter)
        return self._dispatch(flight) if flight else []

    def refused(self, waiter: int, failure: CompileFailure) -> list[Action]:
        """``waiter`` was asked and cannot give the graph: it fails with ``failure`` and the next waiter is asked.

        When no waiter is left the flight ends. Nothing is remembered: a refusal concerns the waiter, not the graph.
        Ignored, as in ``uploaded``, for a waiter that is not the one asked.
        """
        flight = self._asked_of(waiter)
        return [Fail(waiter, failure), *self._leave(flight, waiter)] if flight else []

    def cancel(self, waiter: int) -> list[Action]:
        """The waiter's stream ended. Idempotent; a waiter that was answered or never known is fine.

        Another waiter takes the lead. A flight that nobody waits for ends, unless it is COMPILING: that artifact serves
        the next job.
        """
        key = self._key_of.get(waiter)
        return [] if key is None else self._leave(self._flights[key], waiter)

    # Events of the pool

    def started(self, key: str) -> list[Action]:
        """A worker took ``key``. Ignored unless it is QUEUED: it may have been abandoned meanwhile."""
        flight = self._flights.get(key)
        if flight is None or flight.state != COMPILE_STATE_QUEUED:
            return []
        self._unqueue(flight)
        flight.state = COMPILE_STATE_COMPILING
        return self._tell_all(flight)

    def finished(self, key: str, ours: bool = True) -> list[Action]:
        """The artifact of ``key`` is published. Ignored when there is no such flight. ``ours``: our dispatch made it, not
        somebody else's elsewhere.

        Good news is taken in any state: whoever waits for the key can be served, however it came to be published.
        """
        flight = self._flights.get(key)
        if flight is None:
            return []
        # Without a dispatch of ours no request of ours caused the compile.
        leader = flight.leader if flight.attempt and ours else None
        served = [Deliver(waiter, SERVED_LED if waiter == leader else SERVED_JOINED) for waiter in flight.waiters]
        return [*served, *self._end(flight)]

    def failed(
        self, key: str, failure: CompileFailure, retryable: bool, ask_again: Callable[[], bool] = lambda: False
    ) -> list[Action]:
        """The dispatch of ``key`` came to nothing. It is dispatched again, or all waiters fail and the failure is
        remembered if it is a fact about the graph (see ``failures``). ``ask_again``, which is asked before they fail: whether
        a waiter can do better, and is asked for the graph as at the start.

        Not tried again when nobody waits; then nothing is remembered either, as the verdict is not final. Ignored when
        nothing of that key is dispatched.
        """
        flight = self._flights.get(key)
        if flight is None or not flight.attempt:
            return []
        if retryable and flight.attempt < self._limits.attempts:
            return self._dispatch(flight) if flight.waiters else self._end(flight)
        if flight.waiters and not self._draining and ask_again():
            return self._ask_again(flight)
        self._failures.remember(key, failure)
        return [*(Fail(waiter, failure) for waiter in flight.waiters), *self._end(flight)]

    # Events of the daemon

    def drain(self) -> list[Action]:
        """From now on ``open`` is rejected. Flights without a dispatch are given up, the others go on. Idempotent."""
        self._draining = True
        return self._give_up([flight for flight in self._flights.values() if not flight.attempt])

    def abort(self) -> list[Action]:
        """The drain time is over: every flight is given up, also those that nobody waits for. Idempotent."""
        self._draining = True
        return self._give_up(list(self._flights.values()))

    def forget_failures(self, key: str | None = None) -> int:
        """Let ``key``, or all keys, be tried again. Returns how many failures were forgotten."""
        return self._failures.forget(key)

    # Views

    def state(self, key: str) -> KeyState:
        """COMPILING for a flight in any state, FAILED for a remembered failure, else ABSENT: the store is not known."""
        if key in self._flights:
            return KEY_STATE_COMPILING
        return KEY_STATE_FAILED if self._failures.recall(key) else KEY_STATE_ABSENT

    def progress(self, waiter: int) -> Tell | None:
        """What to tell the waiter now, for heartbeats; None when it does not wait.

        Places in the queue move with every start. They are looked up here, since telling all waiters of all keys at
        each start would cost more than it says.
        """
        key = self._key_of.get(waiter)
        return None if key is None else self._tell(self._flights[key], waiter)

    def flights(self) -> list[FlightInfo]:
        """All flights, oldest first."""
        now = self._clock()
        return [
            FlightInfo(flight.key, flight.state, now - flight.opened, len(flight.waiters), flight.attempt)
            for flight in self._flights.values()
        ]

    def check(self) -> None:
        """Assert what must hold between events.

        Raises:
            AssertionError: naming the flight, when it does not.
        """
        limits = self._limits
        assert len(self._flights) <= limits.max_keys, "too many flights"
        assert len(self._key_of) <= limits.max_waiters, "too many waiters"
        assert len(self._failures) <= limits.max_failures, "too many remembered failures"
        waiting = [(waiter, flight.key) for flight in self._flights.values() for waiter in flight.waiters]
        assert sorted(waiting) == sorted(self._key_of.items()), "a waiter is lost, doubled or left over"
        queued = [flight.ticket for flight in self._flights.values() if flight.state == COMPILE_STATE_QUEUED]
        assert self._queue == sorted(set(queued)), "the queue is not that of the flights"
        assert len(queued) == len(self._queue), "two flights have one place in the queue"
        for key, flight in self._flights.items():
            uploading = flight.state == COMPILE_STATE_UPLOADING
            assert key == flight.key, key
            assert uploading == (flight.attempt == 0), f"{key}: attempt {flight.attempt} does not fit its state"
            assert flight.attempt <= limits.attempts, f"{key}: attempt {flight.attempt}"
            assert flight.waiters or flight.state == COMPILE_STATE_COMPILING, f"{key}: nobody waits for it"
            assert flight.leader is None or flight.leader == next(iter(flight.waiters)), f"{key}: leader is not first"
            assert not uploading or flight.leader is not None, f"{key}: nobody is asked for the graph"
            assert not (self._draining and uploading), f"{key}: uploaded while draining"
            assert self._failures.recall(key) is None, f"{key}: in flight and remembered as failed"

    # Transitions

    def _asked_of(self, waiter: int) -> _Flight | None:
        """The flight whose graph ``waiter`` was asked for and has not given."""
        key = self._key_of.get(waiter)
        if key is None:
            return None
        flight = self._flights[key]
        return flight if flight.state == COMPILE_STATE_UPLOADING and flight.leader == waiter else None

    def _dispatch(self, flight: _Flight) -> list[Action]:
        if flight.state == COMPILE_STATE_QUEUED:
            # A dispatch can fail before a worker takes it; the retry goes to the end of the queue like the pool's own.
            self._unqueue(flight)
        flight.state = COMPILE_STATE_QUEUED
        flight.attempt += 1
        flight.ticket = self._next_ticket
        self._next_ticket += 1
        self._queue.append(flight.ticket)
        return [Dispatch(flight.key, flight.attempt), *self._tell_all(flight)]

    def _ask_again(self, flight: _Flight) -> list[Action]:
        if flight.state == COMPILE_STATE_QUEUED:
            self._unqueue(flight)
        flight.state = COMPILE_STATE_UPLOADING
        flight.attempt = 0
        flight.leader = next(iter(flight.waiters))
        return [AskGraph(flight.leader), *self._tell_all(flight)]

    def _leave(self, flight: _Flight, waiter: int) -> list[Action]:
        """``waiter`` is no longer part of ``flight``; the one who waits longest takes its lead."""
        del flight.waiters[waiter]
        del self._key_of[waiter]
        if not flight.waiters:
            flight.leader = None
            if flight.state == COMPILE_STATE_COMPILING:
                return []
            return [*self._abandon(flight), *self._end(flight)]
        if flight.leader != waiter:
            return []
        flight.leader = next(iter(flight.waiters))
        return [AskGraph(flight.leader)] if flight.state == COMPILE_STATE_UPLOADING else []

    def _give_up(self, flights: Iterable[_Flight]) -> list[Action]:
        actions: list[Action] = []
        for flight in flights:
            actions += (Reject(waiter, RejectReason.ABORTED) for waiter in flight.waiters)
            actions += self._abandon(flight)
            actions += self._end(flight)
        return actions

    def _abandon(self, flight: _Flight) -> list[Action]:
        return [Abandon(flight.key)] if flight.attempt else []

    def _end(self, flight: _Flight) -> list[Action]:
        """The last step of every flight. Its waiters have been answered."""
        if flight.state == COMPILE_STATE_QUEUED:
            self._unqueue(flight)
        for waiter in flight.waiters:
            del self._key_of[waiter]
        del self._flights[flight.key]
        return [Forget(flight.key)]

    def _unqueue(self, flight: _Flight) -> None:
        del self._queue[bisect.bisect_left(self._queue, flight.ticket)]

    def _tell(self, flight: _Flight, waiter: int) -> Tell:
        queued = flight.state == COMPILE_STATE_QUEUED
        return Tell(waiter, flight.state, bisect.bisect_left(self._queue, flight.ticket) if queued else 0)

    def _tell_all(self, flight: _Flight) -> list[Action]:
        return [self._tell(flight, waiter) for waiter in flight.waiters]
