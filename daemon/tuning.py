"""Who tunes which kernel: one client a kernel, one at a time on a device. Records are kept in the store, apart from graphs."""

import asyncio
import contextlib
import enum
import hashlib
from collections.abc import AsyncIterator

from inductord.daemon.errors import OverLimit
from inductord.daemon.store import Meta, Store
from inductord.v1.compiler_pb2 import GraphKind, Toolchain

MAX_KERNELS = 4096
"""Kernels that may be tuned at once."""

_NOT_A_GRAPH = "tuning"


class TuningResult(enum.StrEnum):
    """How a rank came to the choice for a kernel. Values are stable, as labels."""

    FOUND = "found"
    # Somebody was measuring, and its choice came.
    JOINED = "joined"
    MEASURED = "measured"
    # The rank went away, was silent or refused; the next one that asks measures.
    FAILED = "failed"


class Tunings:
    """Turns and records. All methods run on one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._led: dict[str, asyncio.Event] = {}
        # A device that nobody uses goes.
        self._devices: dict[str, tuple[asyncio.Lock, int]] = {}

    async def record(self, key: str) -> bytes | None:
        """What was chosen before, if anything was."""
        found = await self._store.read(_stored(key))
        return found[1] if found is not None else None

    async def publish(self, key: str, record: bytes, job: str) -> bytes:
        """Keep a record, unless there is one; returns the one that stands.

        Raises:
            ArtifactTooLarge: the store can never hold it.
        """
        meta = Meta(GraphKind.GRAPH_KIND_UNSPECIFIED, 0.0, Toolchain(), {"record": _NOT_A_GRAPH}, 0, job)
        await self._store.publish(_stored(key), record, meta)
        return await self.record(key) or record

    @contextlib.asynccontextmanager
    async def turn(self, key: str, device: str) -> AsyncIterator[bool]:
        """Wait until nobody tunes this kernel. True inside: it is the caller's turn, and the device is its own. False: somebody
        was at it, and may have left a record.

        Raises:
            OverLimit: too many are being tuned.
        """
        if (led := self._led.get(key)) is not None:
            await led.wait()
            yield False
            return
        if len(self._led) >= MAX_KERNELS:
            raise OverLimit(f"{MAX_KERNELS} kernels are being tuned; tune this one by yourself.")
        self._led[key] = ended = asyncio.Event()
        try:
            async with self._alone_on(device):
                yield True
        finally:
            del self._led[key]
            ended.set()

    @contextlib.asynccontextmanager
    async def _alone_on(self, device: str) -> AsyncIterator[None]:
        lock, users = self._devices.get(device, (asyncio.Lock(), 0))
        self._devices[device] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._devices.pop(device)
            if users > 1:
                self._devices[device] = lock, users - 1


def _stored(key: str) -> str:
    """Where the record of a (scoped) key is kept: apart from what is kept for a graph of that key."""
    tenant, slash, bare = key.rpartition("/")
    return f"{tenant}{slash}{hashlib.sha256(f'{_NOT_A_GRAPH} {bare}'.encode()).hexdigest()}"
