"""Who of a local pool's workers is idle, busy or being started; hands them out in order and lets idle ones go.

It knows how many workers there shall be. It does not know what they are given to do, nor how one is started: that
comes as a function.
"""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from inductord.worker.failures import WorkerFailure
from inductord.worker.pool import PoolUnavailable, Priority
from inductord.worker.starts import Starts

_log = logging.getLogger("inductord.pool")

# After so many times idle_seconds without any job, even the warm workers go.
_ASLEEP_AFTER = 3
_LONGEST_TICK_S = 30.0


class StartFailed(Exception):
    """A worker did not become ready. The message says why, with the end of its output."""


class NoneFits(StartFailed):
    """Nor would another worker become ready for now: jobs are told so, instead of being kept waiting."""


class NotNeeded(StartFailed):
    """The start was given up because nobody needs the worker any more. No failure."""


class Worker(Protocol):
    """What a crew needs of a worker, be it a process or an actor."""

    @property
    def name(self) -> str:
        """For the log."""

    @property
    def alive(self) -> bool:
        """False once its end is known."""

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when its end is known."""

    def terminate(self) -> None:
        """Ask it to end. Does not wait."""

    def kill(self) -> None:
        """End it now, with all that it spawned. Does not wait."""

    async def close(self) -> None:
        """Kill it and release what it held. Bounded."""


WorkerT = TypeVar("WorkerT", bound=Worker)


@dataclasses.dataclass(eq=False, slots=True)
class Claim:
    """A place in the queue for a worker. ``priority`` may be raised while it waits."""

    priority: Priority = Priority.WAITED_FOR


@dataclasses.dataclass(frozen=True, slots=True)
class CrewSize:
    """How many workers there shall be at most, how many stay warm, and after how many seconds idle the others leave."""

    max_workers: int
    min_warm: int
    idle_seconds: float


class Crew(Generic[WorkerT]):
    """Workers of one pool, all of one kind. All methods run on one event loop.

    Args:
        start_worker: starts one and waits until it is ready; raises ``StartFailed``.
        on_failure: told of each worker that failed to start or died idle.
    """

    def __init__(
        self,
        size: CrewSize,
        start_worker: Callable[[], Awaitable[WorkerT]],
        on_failure: Callable[[WorkerFailure], None],
    ) -> None:
        self._size = size
        self._start_worker = start_worker
        self._on_failure = on_failure
        self._starts = Starts(time.monotonic)
        # Each with the time since when it is idle; the longest idle first.
        self._idle: dict[WorkerT, float] = {}
        self._busy: set[WorkerT] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        # In the order of their calls.
        self._waiters: dict[asyncio.Future[WorkerT], Claim] = {}
        self._warm = 0
        self._last_used = time.monotonic()
        self._ticker: asyncio.Task[None] | None = None
        self.stopping = False

    @property
    def starting(self) -> int:
        """Workers that are not ready yet."""
        return len(self._starting)

    @property
    def idle(self) -> int:
        """Workers that wait for a job."""
        return len(self._idle)

    @property
    def busy(self) -> int:
        """Workers that have a job."""
        return len(self._busy)

    @property
    def queued(self) -> int:
        """Callers of ``acquire`` that wait."""
        return len(self._waiters)

    @property
    def surplus(self) -> bool:
        """Whether more workers are being started than anybody needs by now."""
        return self.busy + self.idle + self.starting > self._needed()

    @property
    def trouble(self) -> str:
        """Why no worker can be started, or nothing."""
        return self._starts.last_failure if self._starts.given_up else ""

    def start(self) -> None:
        """Begin to start the warm workers."""
        self._ticker = asyncio.create_task(self._let_idle_go(), name="idle workers leave")
        self._wake()

    async def acquire(self, claim: Claim) -> WorkerT:
        """A worker, by priority and then in the order of calls. Give it back with ``release`` or ``retire``.

        Raises:
            PoolUnavailable: none can be started, or the crew stops.
        """
        if self.stopping:
            raise PoolUnavailable(_STOPPED)
        while self._idle:
            worker = next(reversed(self._idle))
            if worker.alive:
                del self._idle[worker]
                self._busy.add(worker)
                self._wake()
                return worker
            self._lost_idle(worker)
        if self._is_hopeless() and self._starts.delay > 0:
            raise PoolUnavailable(self._hopeless())
        waiter: asyncio.Future[WorkerT] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = claim
        self._wake()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiters.pop(waiter, None)
            elif waiter.exception() is None:
                self.release(waiter.result())
            raise

    def release(self, worker: WorkerT) -> None:
        """Its job is done and it can take the next."""
        if not worker.alive or self.stopping:
            self.retire(worker)
            return
        self._busy.discard(worker)
        self._last_used = time.monotonic()
        self._offer(worker)

    def retire(self, worker: WorkerT) -> None:
        """Kill it with all that it spawned, at once; another is started if one is needed. Idempotent."""
        if worker not in self._busy and worker not in self._idle:
            return
        self._busy.discard(worker)
        self._idle.pop(worker, None)
        worker.kill()
        closing = asyncio.create_task(worker.close(), name=f"{worker.name} closes")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        self._grow()

    def let_one_go(self) -> None:
        """End the worker that was idle for longest, if one is, and start none in its place until there is work."""
        if self._idle and not self._waiters:
            self._warm = 0
            self.retire(next(iter(self._idle)))

    async def stop(self, grace: float) -> None:
        """End all: waiters get ``PoolUnavailable``, workers ``grace`` seconds to heed SIGTERM. Idempotent."""
        self.stopping = True
        if self._ticker is not None:
            self._ticker.cancel()
        self._fail_waiters(_STOPPED)
        for task in self._starting:
            task.cancel()
        workers = {*self._idle, *self._busy}
        for worker in workers:
            worker.terminate()
        if workers:
            await asyncio.wait({worker.ended for worker in workers}, timeout=grace)
        for worker in workers:
            self.retire(worker)
        # A start that was cancelled ends its worker by itself.
        while pending := {*self._starting, *self._closing}:
            await asyncio.wait(pending)

    def _wake(self) -> None:
        self._last_used = time.monotonic()
        self._warm = self._size.min_warm
        self._grow()

    def _grow(self) -> None:
        if self.stopping:
            return
        for _ in range(self._needed() - self.busy - self.idle - self.starting):
            task = asyncio.create_task(self._start_one(), name="worker starts")
            self._starting.add(task)
            task.add_done_callback(self._started_one)

    def _needed(self) -> int:
        return min(self._size.max_workers, max(self._warm, self.busy + self.queued))

    async def _start_one(self) -> None:
        this = asyncio.current_task()
        assert this is not None
        await asyncio.sleep(self._starts.delay)
        try:
            worker = await self._start_worker()
        except NotNeeded:
            return
        except StartFailed as failure:
            self._starts.failed(str(failure), isinstance(failure, NoneFits))
            self._on_failure(WorkerFailure.START_FAILED)
            _log.warning("a worker cannot be started, next try in %.1f s: %s", self._starts.delay, failure)
            if self._is_hopeless():
                self._fail_waiters(self._hopeless())
            return
        self._starts.succeeded()
        worker.ended.add_done_callback(lambda _: self._lost_idle(worker) if worker in self._idle else None)
        # Before it counts as idle or busy: nobody is two of these.
        self._starting.discard(this)
        self._offer(worker)

    def _started_one(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a defect in starting a worker", exc_info=error)
            self._starts.failed(f"{type(error).__name__}: {error}")
        self._grow()

    def _offer(self, worker: WorkerT) -> None:
        while self._waiters:
            # The first of those that are most urgent: min keeps the order of the calls.
            waiter = min(self._waiters, key=lambda each: self._waiters[each].priority)
            del self._waiters[waiter]
            if not waiter.done():
                self._busy.add(worker)
                waiter.set_result(worker)
                return
        self._idle[worker] = time.monotonic()

    def _lost_idle(self, worker: WorkerT) -> None:
        if self.stopping:
            return
        _log.warning("%s died while it was idle", worker.name)
        self._on_failure(WorkerFailure.DIED)
        self.retire(worker)

    def _is_hopeless(self) -> bool:
        return self._starts.given_up and not self._busy and not self._idle

    def _hopeless(self) -> str:
        return f"no worker can be started; the next try is in {self._starts.delay:.0f} s. {self._starts.last_failure}"

    def _fail_waiters(self, why: str) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(PoolUnavailable(why))

    async def _let_idle_go(self) -> None:
        while True:
            await asyncio.sleep(min(self._size.idle_seconds / 4, _LONGEST_TICK_S))
            now = time.monotonic()
            if self._busy or self._waiters:
                self._last_used = now
            elif now - self._last_used > _ASLEEP_AFTER * self._size.idle_seconds:
                self._warm = 0
            for worker, since in list(self._idle.items()):
                if now - since > self._size.idle_seconds and self.idle + self.busy + self.starting > self._warm:
                    _log.info("%s leaves after %.0f s idle", worker.name, now - since)
                    self.retire(worker)


_STOPPED = "the pool is stopped"
