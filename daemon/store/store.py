"""The asynchronous whole of the store: catalog and memory tier on the event loop, the disk in threads.

All in-memory state belongs to the event loop. Every change of the disk runs in one writer thread, one after the other,
and runs to its end even when its caller is cancelled, so that memory and disk never drift apart.

A disk that takes no writes does not fail a publish: the artifact lives on in the memory tier and is written once the
disk takes writes again.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from inductord.daemon.store.blobs import BlobDamaged
from inductord.daemon.store.catalog import Catalog
from inductord.daemon.store.disk import Disk, Recovered
from inductord.daemon.store.memory import MemoryTier
from inductord.daemon.store.records import (
    ArtifactTooLarge,
    Evicted,
    EvictReason,
    Meta,
    ReadTier,
    Record,
    StoreEvents,
    Unobserved,
)
from inductord.daemon.store.writer import Writer
from inductord.daemon.tenancy import split
from inductord.v1.admin_pb2 import StoreStatus

_log = logging.getLogger("inductord.store")

_T = TypeVar("_T")

# Uses are for eviction order and for people. A kill may lose the last seconds of them.
_SAVE_USES_AFTER_S = 5.0
_READERS = 4


class Store:
    """Artifacts by key. Made by ``open``; all methods run on the event loop that opened it."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        writer: ThreadPoolExecutor,
        *,
        max_bytes: int,
        memory_bytes: int,
        clock: Callable[[], float],
        events: StoreEvents,
    ) -> None:
        self._path = path
        self._disk = disk
        self._writer = Writer(path, writer, events)
        self._readers = ThreadPoolExecutor(_READERS, "inductord-store-read")
        self._max_bytes = max_bytes
        self._clock = clock
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._catalog = Catalog(clock)
        self._memory = MemoryTier(memory_bytes)
        # Blobs that the disk did not take: the memory tier has the only copy.
        self._homeless: set[bytes] = set()
        self._changing = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._reads: dict[bytes, asyncio.Task[bytes | None]] = {}
        self._saving: asyncio.TimerHandle | None = None
        self._closed = False
        self._evictions = 0
        self._quarantined = 0

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        max_bytes: int,
        memory_bytes: int,
        clock: Callable[[], float] = time.time,
        events: StoreEvents | None = None,
    ) -> "Store":
        """Open or make the store at ``path`` and mend what a kill or a damage left.

        ``max_bytes`` bounds the disk, ``memory_bytes`` the memory tier. ``clock`` gives Unix seconds.

        Raises:
            StoreBusy: another process has it.
            StoreUnusable: it cannot be made, opened or mended.
        """
        writer = ThreadPoolExecutor(1, "inductord-store-write")
        try:
            disk, recovered = await asyncio.get_running_loop().run_in_executor(writer, Disk.open, path)
        except BaseException:
            writer.shutdown(wait=False)
            raise
        store = cls(
            path,
            disk,
            writer,
            max_bytes=max_bytes,
            memory_bytes=memory_bytes,
            clock=clock,
            events=events or Unobserved(),
        )
        await store._adopt(recovered)
        return store

    # Lookups

    def find(self, key: str) -> Record | None:
        """The entry of ``key``. No I/O; counts as no use."""
        return self._catalog.get(key)

    def match(self, prefix: str) -> Sequence[Record]:
        """Entries of one tenant whose scoped key begins with ``prefix``, by key."""
        return [record for record in self._catalog.match(prefix) if "/" not in record.key[len(prefix) :]]

    def list(self, *, after: str | None, limit: int, tenant: str | None = None) -> Sequence[Record]:
        """At most ``limit`` entries, most recently used first, those behind the key ``after`` if it is given. Of
        all tenants, or of one.

        An entry that is used between two pages moves to the front and may be listed twice. When ``after`` itself is
        gone, the list is empty.
        """
        records = self._catalog.newest_first(after)
        return list(islice((record for record in records if tenant is None or split(record.key)[0] == tenant), limit))

    async def key_parts(self, key: str) -> Mapping[str, str]:
        """Digests of the parts of a stored key, by name; none when the key is not there."""
        record = self._catalog.get(key)
        if record is None or record.meta.key_parts:  # not there, or not written yet
            return record.meta.key_parts if record else {}
        return await self._writer.run(self._disk.key_parts, key)

    def status(self) -> StoreStatus:
        """A snapshot; cheap."""
        return StoreStatus(
            path=str(self._path),
            entries=len(self._catalog),
            bytes=self._catalog.total_bytes,
            max_bytes=self._max_bytes,
            memory_bytes=self._memory.total_bytes,
            evictions=self._evictions,
            quarantined=self._quarantined,
            note=self._writer.note,
        )

    # Reading

    def pin(self, key: str) -> AbstractContextManager[None]:
        """Spare the artifact of ``key`` from eviction while the context lasts. Harmless when the key is not there."""
        record = self._catalog.get(key)
        return self._catalog.pinned(record.sha256) if record else nullcontext()

    def lend(self, key: str) -> tuple[Record, Path] | None:
        """The artifact of ``key`` as a file, which whoever reads it has to verify. No I/O; counts as a use. Pin it meanwhile.

        None: there is no such entry, or the disk does not have it.
        """
        record = self._catalog.get(key)
        if record is None or record.sha256 in self._homeless:
            return None
        self._events.read(ReadTier.LENT)
        return self._used(key) or record, self._disk.path(record.sha256)

    async def read(self, key: str, *, counts: bool = True) -> tuple[Record, bytes] | None:
        """The artifact of ``key``, verified if it comes from the disk. Counts as a use if ``counts``.

        None is a miss: there is no such entry, or its artifact was found damaged and the entry is gone now.
        """
        record = self._catalog.get(key)
        if record is None:
            return None
        data = self._memory.get(record.sha256)
        if data is not None:
            self._events.read(ReadTier.MEMORY)
        else:
            # Many ranks ask for one artifact in the same moment; the disk is asked once.
            reading = self._reads.get(record.sha256)
            if reading is None:
                reading = self._spawn(self._load(record.sha256, record.size))
                self._reads[record.sha256] = reading
                reading.add_done_callback(lambda _: self._reads.pop(record.sha256))
            data = await asyncio.shield(reading)
            if data is None:
                return None
            self._events.read(ReadTier.DISK)
        return (self._used(key) if counts else None) or record, data

    async def _load(self, sha256: bytes, size: int) -> bytes | None:
        """Read a blob from the disk into the memory tier. None if it was damaged."""
        data = await self._read_disk(sha256, size)
        if data is not None:
            self._remember(sha256, data)
        return data

    async def _read_disk(self, sha256: bytes, size: int) -> bytes | None:
        """Read a blob; a damaged one is condemned, and None."""
        with self._catalog.pinned(sha256):
            try:
                return await self._from_disk(sha256, size)
            except (BlobDamaged, OSError) as error:
                _log.debug("store: blob %s cannot be read: %s", sha256.hex(), error)
            return await self._condemn(sha256, size)

    async def _from_disk(self, sha256: bytes, size: int) -> bytes:
        return await self._loop.run_in_executor(self._readers, self._disk.read, sha256, size)

    async def _condemn(self, sha256: bytes, size: int) -> bytes | None:
        """Drop a blob that cannot be read as it was written, unless it can be by now; then return it."""
        async with self._changing:
            try:
                # A publish of the same bytes may have mended it meanwhile.
                return await self._from_disk(sha256, size)
            except (BlobDamaged, OSError) as error:
                damage = error
            keys = [record.key for record in self._forget(sha256)]
            if not keys:
                return None
            _log.error("store: the artifact of %s is damaged: %s. It will be compiled again.", ", ".join(keys), damage)
            self._quarantined += 1
            self._events.quarantined()
            await self._writer.change("set aside a damaged artifact", self._disk.condemn, keys, sha256)
        return None

    def _used(self, key: str) -> Record | None:
        record = self._catalog.touch(key)
        if record is not None and self._saving is None and not self._closed:
            self._saving = self._loop.call_later(_SAVE_USES_AFTER_S, self._spawn_save)
        return record

    # Publishing

    async def publish(self, key: str, data: bytes, meta: Meta) -> Record:
        """Store an artifact. The first writer wins: a key that is there keeps what it has.

        Makes room by evicting what was used least recently. Where too much is pinned for that, the store is over its
        limit by what is pinned, until the next publish. Returns the entry, which then is found and served, from memory
        alone if the disk does not take it.

        Raises:
            ArtifactTooLarge: it can never fit.
        """
        if len(data) > self._max_bytes:
            raise ArtifactTooLarge(len(data), self._max_bytes)
        if present := self._catalog.get(key):
            return present
        return await asyncio.shield(self._spawn(self._publish(key, data, meta)))

    async def _publish(self, key: str, data: bytes, meta: Meta) -> Record:
        digest = await self._loop.run_in_executor(self._readers, hashlib.sha256, data)
        sha256 = digest.digest()
        async with self._changing:
            if present := self._catalog.get(key):
                return present
            now = self._clock()
            record = Record(key, len(data), sha256, now, now, 0, meta)
            shared = self._catalog.holds(sha256)
            # Where nothing can be removed nothing may be added, or the disk would fill beyond its limit.
            room = shared or (await self._evict(self._max_bytes - record.size, EvictReason.SIZE)).whole
            homed = room and await self._write(record, data, shared=shared)
            if homed:
                record = record.without_key_parts()
            elif not shared:
                self._homeless.add(sha256)
            self._catalog.add(record)
            self._remember(sha256, data)
            if homed:
                await self._settle()
            return record

    async def _settle(self) -> None:
        """Write what the disk did not take before, now that it takes writes again."""
        for sha256 in list(self._homeless):
            data = self._memory.get(sha256)
            if data is None:
                # A read that ended meanwhile pushed it out of the memory tier.
                continue
            for key in self._catalog.keys_of(sha256):
                if record := self._catalog.get(key):
                    # As if shared: should the row not be taken, the blob may stay for the next time.
                    if not await self._write(record, data, shared=True):
                        return
                    self._catalog.update(record.without_key_parts())
            self._homeless.discard(sha256)
        self._writer.recovered()

    async def _write(self, record: Record, data: bytes, *, shared: bool) -> bool:
        return await self._writer.change("write an artifact", partial(self._disk.write, record, data, shared=shared))

    def _remember(self, sha256: bytes, data: bytes) -> None:
        for dropped in self._memory.put(sha256, data, only_copy=sha256 in self._homeless):
            if dropped in self._homeless:
                self._count_evictions(len(self._forget(dropped)), EvictReason.SIZE)

    # Evicting

    async def verify(self) -> tuple[int, Sequence[str]]:
        """Read every artifact from the disk. Returns how many entries were checked, and the keys of damaged ones."""
        checked = 0
        damaged: list[str] = []
        for sha256, size in self._catalog.blobs():
            keys = self._catalog.keys_of(sha256)
            if sha256 in self._homeless or not keys:
                continue
            checked += len(keys)
            if await asyncio.shield(self._spawn(self._read_disk(sha256, size))) is None:
                damaged += keys
        return checked, damaged

    async def collect(self, max_bytes: int | None) -> tuple[int, int]:
        """Evict the least recently used until at most ``max_bytes`` are left, or the store's own limit with None.

        What is pinned stays. Returns the number of entries that went and the bytes that it freed.
        """
        target = self._max_bytes if max_bytes is None else max_bytes
        return await asyncio.shield(self._spawn(self._collect(target)))

    async def _collect(self, target: int) -> tuple[int, int]:
        async with self._changing:
            return (await self._evict(target, EvictReason.GC))[:2]

    async def _evict(self, target: int, reason: EvictReason) -> Evicted:
        """Evict until ``target`` bytes are left or the rest is pinned. Ends early at a blob that the disk does not let go,
        which stays as if just used: the next eviction tries others first."""
        entries = freed = 0
        for sha256, size in self._catalog.victims(target):
            homeless = sha256 in self._homeless
            records = self._forget(sha256)
            removing = partial(self._disk.remove, [record.key for record in records], sha256)
            if not await self._writer.change("remove an evicted artifact", removing) and not homeless:
                for record in records:
                    self._catalog.add(record)
                return Evicted(entries, freed, whole=False)
            self._count_evictions(len(records), reason)
            entries += len(records)
            freed += size
        return Evicted(entries, freed)

    def _forget(self, sha256: bytes) -> Sequence[Record]:
        """Drop a blob from all that is in memory. Returns its records."""
        self._memory.discard(sha256)
        self._homeless.discard(sha256)
        return self._catalog.drop(sha256)

    def _count_evictions(self, entries: int, reason: EvictReason) -> None:
        self._evictions += entries
        for _ in range(entries):
            self._events.evicted(reason)

    # Life

    async def _adopt(self, recovered: Recovered) -> None:
        self._catalog.fill(recovered.records)
        self._quarantined = recovered.damaged
        for _ in range(recovered.damaged):
            self._events.quarantined()
        async with self._changing:
            await self._evict(self._max_bytes, EvictReason.SIZE)

    async def close(self) -> None:
        """Finish what runs, save counts of use, and let another daemon have the store. Idempotent."""
        if self._closed:
            return
        self._closed = True
        while self._running:
            await asyncio.wait(self._running)
        if self._saving is not None:
            self._saving.cancel()
        await self._save_uses()
        await self._writer.run(self._disk.close)
        self._writer.close()
        self._readers.shutdown()

    def _spawn_save(self) -> None:
        self._saving = None
        self._spawn(self._save_uses())

    async def _save_uses(self) -> None:
        async with self._changing:
            if records := self._catalog.used_lately():
                await self._writer.change("save counts of use", self._disk.save_uses, records)

    def _spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start what must run to its end whoever waits for it; ``close`` does."""
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task
