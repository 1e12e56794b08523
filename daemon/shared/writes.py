"""The queue of what is to be written to a shared store: bounded, tried again, and given up rather than waited for."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import tenacity

from inductord.daemon.shared.breaker import Breaker
from inductord.daemon.shared.events import Operation, SharedEvents, Write
from inductord.daemon.shared.objects import redacted
from inductord.daemon.shared.threads import Threads

_log = logging.getLogger("inductord.shared")

MAX_QUEUED = 1024
MAX_QUEUED_BYTES = 256 << 20
_AT_ONCE = 2
_ATTEMPT_SECONDS = 60.0
_ATTEMPTS = 3


class WriteQueue:
    """Writes, which block, in the order in which they came."""

    def __init__(
        self,
        breaker: Breaker,
        events: SharedEvents,
        *,
        max_queued: int = MAX_QUEUED,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
        attempt_seconds: float = _ATTEMPT_SECONDS,
        first_pause: float = 0.5,
    ) -> None:
        self._breaker = breaker
        self._events = events
        self._max_queued = max_queued
        self._max_bytes = max_queued_bytes
        self._attempt_seconds = attempt_seconds
        self._first_pause = first_pause
        # One thread more than are used at once: one that was given up must not stop the others.
        self._threads = Threads("inductord-shared-write", 2 * _AT_ONCE)
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._bytes = 0
        self._writers: set[asyncio.Task[None]] = set()
        self._closed = False
        self.last_error = ""

    def __len__(self) -> int:
        """How many wait or are under way."""
        return len(self._waiting) + len(self._writers)

    def put(self, size: int, write: Callable[[], None]) -> None:
        """Have ``write`` called in a thread, which writes ``size`` bytes, or count why not."""
        if self._closed:
            self._events.shared_written(Write.STOPPED, 0)
            return
        if len(self._waiting) >= self._max_queued or self._bytes + size > self._max_bytes:
            self._events.shared_written(Write.QUEUE_FULL, 0)
            return
        self._waiting.append((size, write))
        self._bytes += size
        if len(self._writers) < _AT_ONCE:
            writer = asyncio.create_task(self._work(), name="write to the shared store")
            self._writers.add(writer)
            writer.add_done_callback(self._ended)
        self._tell()

    async def close(self, seconds: float) -> None:
        """Write what waits within ``seconds``, and give up the rest."""
        self._closed = True
        if self._writers:
            await asyncio.wait(self._writers, timeout=seconds)
        for writer in self._writers:
            writer.cancel()
        left = len(self)
        for _ in range(left):
            self._events.shared_written(Write.STOPPED, 0)
        if left:
            _log.warning("%d artifacts were not written to the shared store before the daemon stopped", left)
        self._waiting.clear()
        self._tell()

    def _ended(self, writer: asyncio.Task[None]) -> None:
        self._writers.discard(writer)
        self._tell()

    def _tell(self) -> None:
        self._events.shared_queue(len(self))

    async def _work(self) -> None:
        while self._waiting:
            size, write = self._waiting.popleft()
            self._tell()
            result = await self._one(write)
            self._bytes -= size
            self._events.shared_written(result, size if result is Write.STORED else 0)

    async def _one(self, write: Callable[[], None]) -> Write:
        if not self._breaker.allows():
            return Write.RESTING
        tries = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(1 if self._breaker.open else _ATTEMPTS),
            wait=tenacity.wait_exponential(self._first_pause, max=5.0) + tenacity.wait_random(0, self._first_pause),
            reraise=True,
        )
        try:
            await tries(self._threads.run, write, self._attempt_seconds)
        except Exception as error:  # noqa: BLE001 -- drivers raise what they like; it is counted, and logged once
            self.last_error = redacted(f"{type(error).__name__}: {error}")
            if self._breaker.failed():
                _log.warning("the shared store takes no writes and is left alone for a while: %s", self.last_error)
                self._events.shared_breaker(Operation.WRITE, True)
            else:
                _log.debug("the shared store did not take a write: %s", self.last_error)
            return Write.FAILED
        if self._breaker.succeeded():
            _log.info("the shared store takes writes again")
            self._events.shared_breaker(Operation.WRITE, False)
        return Write.STORED
