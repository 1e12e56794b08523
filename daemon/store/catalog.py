"""The index in memory: which keys there are, which share a blob, which are in use, which were used least recently.

Pure and synchronous, so that a lookup never waits for a disk. It evicts by blob, not by key: dropping one of two keys
that share a blob would lose an entry and free nothing.
"""

import bisect
import dataclasses
import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from inductord.daemon.store.records import Record


@dataclasses.dataclass(slots=True)
class _Blob:
    size: int
    # Ordered set.
    keys: dict[str, None]


class Catalog:
    """Records by key, in order of use. A blob is named by its SHA-256."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Both: least recently used first.
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._blobs: OrderedDict[bytes, _Blob] = OrderedDict()
        # By digest rather than in _Blob: a blob may go and come back while somebody still has it pinned.
        self._pins: Counter[bytes] = Counter()
        self._sorted_keys: list[str] = []
        self._used: set[str] = set()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def total_bytes(self) -> int:
        """Sum over the blobs; a shared one counts once."""
        return self._bytes

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def holds(self, sha256: bytes) -> bool:
        return sha256 in self._blobs

    def keys_of(self, sha256: bytes) -> list[str]:
        blob = self._blobs.get(sha256)
        return list(blob.keys) if blob else []

    def blobs(self) -> list[tuple[bytes, int]]:
        """Digest and size of every blob, least recently used first."""
        return [(sha256, blob.size) for sha256, blob in self._blobs.items()]

    def newest_first(self, after: str | None) -> Iterator[Record]:
        """Records by last use, those behind ``after`` when it is given; none when ``after`` is not there any more."""
        records = iter(reversed(self._records.values()))
        if after is None:
            return records
        if after not in self._records:
            return iter(())
        return itertools.islice(itertools.dropwhile(lambda record: record.key != after, records), 1, None)

    def match(self, prefix: str) -> list[Record]:
        """Records whose key begins with ``prefix``, by key."""
        start = bisect.bisect_left(self._sorted_keys, prefix)
        tail = itertools.islice(self._sorted_keys, start, None)
        return [self._records[key] for key in itertools.takewhile(lambda key: key.startswith(prefix), tail)]

    def fill(self, records: Iterable[Record]) -> None:
        """Take what an empty catalog begins with, least recently used first."""
        for record in records:
            self._take(record)
        self._sorted_keys = sorted(self._records)

    def add(self, record: Record) -> None:
        """A record whose key is new. It counts as the most recently used."""
        self._take(record)
        bisect.insort(self._sorted_keys, record.key)

    def _take(self, record: Record) -> None:
        self._records[record.key] = record
        blob = self._blobs.get(record.sha256)
        if blob is None:
            blob = self._blobs[record.sha256] = _Blob(record.size, {})
            self._bytes += record.size
        blob.keys[record.key] = None
        self._blobs.move_to_end(record.sha256)

    def update(self, record: Record) -> None:
        """Put ``record`` in the place of that with its key, as recently used as that was."""
        self._records[record.key] = record

    def touch(self, key: str) -> Record | None:
        """Count a use of ``key``. Returns the record as it is then; None when it is gone."""
        record = self._records.get(key)
        if record is None:
            return None
        record = dataclasses.replace(record, used=self._clock(), uses=record.uses + 1)
        self._records[key] = record
        self._records.move_to_end(key)
        self._blobs.move_to_end(record.sha256)
        self._used.add(key)
        return record

    def used_lately(self) -> list[Record]:
        """Those that were touched since this was last asked, as far as they are still there."""
        records = [self._records[key] for key in self._used]
        self._used.clear()
        return records

    def drop(self, sha256: bytes) -> list[Record]:
        """Drop a blob with all its keys. Returns their records."""
        blob = self._blobs.pop(sha256, None)
        if blob is None:
            return []
        self._bytes -= blob.size
        self._used.difference_update(blob.keys)
        for key in blob.keys:
            del self._sorted_keys[bisect.bisect_left(self._sorted_keys, key)]
        return [self._records.pop(key) for key in blob.keys]

    @contextmanager
    def pinned(self, sha256: bytes) -> Iterator[None]:
        """Spare the blob from eviction meanwhile. May be nested."""
        self._pins[sha256] += 1
        try:
            yield
        finally:
            self._pins[sha256] -= 1
            if not self._pins[sha256]:
                del self._pins[sha256]

    def victims(self, target: int) -> list[tuple[bytes, int]]:
        """The least recently used blobs to drop and their sizes, so that ``target`` bytes are left; fewer if the rest is
        pinned."""
        left = self._bytes
        chosen: list[tuple[bytes, int]] = []
        for sha256, blob in self._blobs.items():
            if left <= target:
                break
            if sha256 not in self._pins:
                chosen.append((sha256, blob.size))
                left -= blob.size
        return chosen
