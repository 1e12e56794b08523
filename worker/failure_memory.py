"""Failures that are facts about a graph, remembered for a while so that a bad graph does not storm the pool.

Pure: no I/O, the caller's clock. It must not hold what says nothing about the graph, such as a pool that was not there.
"""

import dataclasses
from collections.abc import Callable

from inductord.v1.compiler_pb2 import (
    FAILURE_KIND_COMPILE_ERROR,
    FAILURE_KIND_OUT_OF_MEMORY,
    FAILURE_KIND_TIMEOUT,
    FAILURE_KIND_TOO_LARGE,
    FAILURE_KIND_UNLOADABLE,
    FAILURE_KIND_WORKER_DIED,
    CompileFailure,
    FailureKind,
)

# A worker that died or ran out of memory counts once its retries are spent: then the graph is what the tries had in
# common. Left out: POOL_UNAVAILABLE says nothing about the graph, and KEY_MISMATCH blames the sender's bytes; another
# rank may well send the right ones under the same key.
_FACTS: frozenset[FailureKind] = frozenset(
    {
        FAILURE_KIND_COMPILE_ERROR,
        FAILURE_KIND_UNLOADABLE,
        FAILURE_KIND_TIMEOUT,
        FAILURE_KIND_WORKER_DIED,
        FAILURE_KIND_OUT_OF_MEMORY,
        FAILURE_KIND_TOO_LARGE,
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    failure: CompileFailure
    expires: float


class FailureMemory:
    """At most ``max_entries`` failures by key, each for ``ttl`` seconds; the oldest make room."""

    def __init__(self, ttl: float, max_entries: int, clock: Callable[[], float]) -> None:
        self._ttl = ttl
        self._max_entries = max_entries
        self._clock = clock
        # Every entry lives equally long, so the order of insertion is the order of expiry.
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def remember(self, key: str, failure: CompileFailure) -> None:
        """Keep ``failure`` if it is a fact about the graph; other kinds are let go."""
        if failure.kind not in _FACTS:
            return
        self._expire()
        self._entries.pop(key, None)
        kept = CompileFailure()
        kept.CopyFrom(failure)
        kept.remembered = True
        self._entries[key] = _Entry(kept, self._clock() + self._ttl)
        while len(self._entries) > self._max_entries:
            del self._entries[next(iter(self._entries))]

    def recall(self, key: str) -> CompileFailure | None:
        """The failure of ``key``, marked ``remembered``, or None when there is none or it is too old."""
        self._expire()
        entry = self._entries.get(key)
        return entry.failure if entry else None

    def forget(self, key: str | None) -> int:
        """Drop the failure of ``key``, or all with None. Returns how many were dropped."""
        self._expire()
        if key is None:
            dropped = len(self._entries)
            self._entries.clear()
            return dropped
        return 1 if self._entries.pop(key, None) else 0

    def _expire(self) -> None:
        now = self._clock()
        while self._entries:
            oldest = next(iter(self._entries))
            if self._entries[oldest].expires > now:
                return
            del self._entries[oldest]
