"""The asynchronous whole of a shared store: reads with a time limit, writes behind, everything counted.

It raises nothing and waits for nothing beyond its limits: to a job a shared store that is down, slow, full or damaged is
one that has nothing. What is read was verified (`sealed`) before anybody sees it.
"""

import dataclasses
import hashlib
import logging
import time
from collections.abc import Callable

from inductord.daemon.shared.breaker import Breaker
from inductord.daemon.shared.errors import SharedStoreUnusable
from inductord.daemon.shared.events import Operation, Read, SharedEvents, Write
from inductord.daemon.shared.keys import KeyFile
from inductord.daemon.shared.objects import Objects, TooLarge, check_url, redacted
from inductord.daemon.shared.sealed import (
    MAX_OVERHEAD_BYTES,
    Refusal,
    Refused,
    Unsealed,
    artifact_entry,
    seal,
    unseal,
)
from inductord.daemon.shared.threads import Threads
from inductord.daemon.shared.writes import WriteQueue
from inductord.daemon.store import Meta
from inductord.v1.admin_pb2 import Entry, SharedStoreStatus
from inductord.v1.sealed_pb2 import SEALED_CONTENT_ARTIFACT

_log = logging.getLogger("inductord.shared")

# Ranks that ask for different keys read side by side; a model has some dozen graphs.
_READS_AT_ONCE = 16
_CLOSE_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class SharedLimits:
    """``max_artifact_bytes``: a larger one is not taken. ``read_seconds``: how long a rank may wait for a read."""

    max_artifact_bytes: int
    read_seconds: float


class SharedStore:
    """Made by `open_shared`; all methods run on one event loop. ``keys`` are read when the daemon starts."""

    def __init__(
        self,
        url: str,
        keys: KeyFile,
        limits: SharedLimits,
        events: SharedEvents,
        *,
        read_only: bool = False,
        objects: Objects | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = redacted(url)
        self._keys = keys
        self._limits = limits
        self._events = events
        self._objects = objects or Objects(url)
        self._threads = Threads("inductord-shared-read", _READS_AT_ONCE)
        self._read_breaker = Breaker(clock)
        self._write_breaker = Breaker(clock)
        self._counts = SharedStoreStatus(url=self._url, read_only=read_only)
        self._last_error = ""
        self._writes = None if read_only else WriteQueue(self._write_breaker, _Counting(self))

    async def fetch(self, key: str, tenant: str) -> Unsealed | None:
        """The artifact of ``key``, verified. None when it cannot be had, for whatever reason, which is counted."""
        if not self._read_breaker.allows():
            self._missed(Read.RESTING)
            return None
        try:
            found = await self._threads.run(lambda: self._read(key, tenant), self._limits.read_seconds)
        except FileNotFoundError:
            self._read_works()
            self._missed(Read.ABSENT)
            return None
        except Refused as refused:
            self._read_works()
            _log.warning(
                "the shared store's artifact of %s is refused (%s): %s. It will be compiled.",
                key[:12],
                refused.reason,
                refused,
            )
            self._missed(refused.reason)
            return None
        except TimeoutError:
            self._read_fails(f"nothing came within {self._limits.read_seconds:g} s")
            self._missed(Read.TIMEOUT)
            return None
        except Exception as error:  # noqa: BLE001 -- drivers raise what they like; it is counted, and logged once
            self._read_fails(redacted(f"{type(error).__name__}: {error}"))
            self._missed(Read.ERROR)
            return None
        self._read_works()
        self._counts.hits += 1
        self._events.shared_read(Read.HIT, len(found.content))
        return found

    def offer(self, key: str, tenant: str, data: bytes, sha256: bytes, meta: Meta) -> None:
        """Have an artifact written that was compiled here. Returns at once."""
        if self._writes is None:
            return
        entry = artifact_entry(key, len(data), sha256, meta, time.time())
        self._writes.put(len(data), lambda: self._write(entry, tenant, data))

    def status(self) -> SharedStoreStatus:
        """A snapshot; cheap."""
        status = SharedStoreStatus()
        status.CopyFrom(self._counts)
        status.queued = len(self._writes) if self._writes is not None else 0
        notes = []
        if self._read_breaker.open:
            notes.append(f"not read for {self._read_breaker.rest_left:.0f} s: {self._last_error}")
        if self._write_breaker.open and self._writes is not None:
            notes.append(f"not written for {self._write_breaker.rest_left:.0f} s: {self._writes.last_error}")
        status.note = "; ".join(notes)
        return status

    async def close(self) -> None:
        """Write what waits, for a bounded time."""
        if self._writes is not None:
            await self._writes.close(_CLOSE_SECONDS)

    def _write(self, entry: Entry, tenant: str, data: bytes) -> None:
        header = seal(entry, tenant, SEALED_CONTENT_ARTIFACT, self._keys.current())
        self._objects.write(_name(entry.key, tenant), header + data)

    def _read(self, key: str, tenant: str) -> Unsealed:
        most = self._limits.max_artifact_bytes
        try:
            data = self._objects.read(_name(key, tenant), most + MAX_OVERHEAD_BYTES)
        except TooLarge:
            raise Refused(Refusal.TOO_LARGE, f"it is larger than max_artifact_bytes, {most}") from None
        return unseal(data, self._keys.current(), key=key, tenant=tenant, content=SEALED_CONTENT_ARTIFACT)

    def _missed(self, result: Read | Refusal) -> None:
        if result is Read.ABSENT:
            self._counts.absent += 1
        elif isinstance(result, Refusal):
            self._counts.refused += 1
        else:
            self._counts.unread += 1
        self._events.shared_read(result, 0)

    def _read_works(self) -> None:
        if self._read_breaker.succeeded():
            _log.info("the shared store %s can be read again", self._url)
            self._events.shared_breaker(Operation.READ, False)

    def _read_fails(self, why: str) -> None:
        self._last_error = why
        if self._read_breaker.failed():
            _log.warning(
                "the shared store %s is left alone for a while: %s. Graphs are compiled meanwhile.", self._url, why
            )
            self._events.shared_breaker(Operation.READ, True)
        else:
            _log.debug("the shared store %s could not be read: %s", self._url, why)

    def count_write(self, result: Write, size: int) -> None:
        """One write ended."""
        if result is Write.STORED:
            self._counts.written += 1
        else:
            self._counts.unwritten += 1
        self._events.shared_written(result, size)


class _Counting:
    """The events of the write queue, also counted for the status."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self.shared_read = store._events.shared_read
        self.shared_queue = store._events.shared_queue
        self.shared_breaker = store._events.shared_breaker
        self.shared_written = store.count_write


def _name(key: str, tenant: str) -> str:
    """Where an artifact lies. Tenants choose their names, so a digest stands for them."""
    owner = hashlib.sha256(tenant.encode()).hexdigest()[:32]
    return f"inductord-1/{owner}/{key[:2]}/{key}"


def open_shared(
    url: str, keys: KeyFile | None, limits: SharedLimits, events: SharedEvents, *, read_only: bool
) -> SharedStore:
    """The shared store of a daemon. Nothing is connected yet: a store that is down keeps no daemon from starting.

    Raises:
        SharedStoreUnusable: the URL can never work, or there are no keys for it.
    """
    check_url(url)
    if keys is None:
        raise SharedStoreUnusable(
            "shared_store needs shared_store_keys: an artifact is code, and only what is signed is taken. "
            "`inductord store new-key FILE` makes a file of keys; give the same one to all daemons."
        )
    return SharedStore(url, keys, limits, events, read_only=read_only)
