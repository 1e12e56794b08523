"""The stored artifacts, from wherever they can be had: the daemon that runs, or the store's folder when none does.

Both give the same messages, so that commands need not know which it was.
"""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from inductord.compiler.address import TcpAddress, parse_address
from inductord.daemon.client import AdminClient, BadRequest, DaemonAbsent, NotFound
from inductord.daemon.config import DaemonConfig
from inductord.daemon.entries import entry_of
from inductord.daemon.store import Record, Store
from inductord.daemon.tenancy import scoped, split
from inductord.v1 import admin_pb2

_MIN_PREFIX = 6
_PAGE = 1000

T = TypeVar("T")


class Artifacts(Protocol):
    """What the commands ask. Methods raise what ``AdminClient``'s raise; the folder also ``StoreBusy``,
    ``StoreUnusable``."""

    def status(self) -> admin_pb2.StoreStatus:
        """Path, sizes and counts."""

    def entries(self, limit: int | None) -> Iterator[admin_pb2.Entry]:
        """Most recently used first."""

    def entry(self, key: str) -> admin_pb2.Entry:
        """By key or by 6 or more digits of its beginning."""

    def verify(self) -> admin_pb2.VerifyStoreResponse:
        """Read everything; quarantine what is damaged."""

    def collect(self, max_bytes: int | None) -> admin_pb2.CollectGarbageResponse:
        """Evict down to ``max_bytes``."""


class OfDaemon:
    """Of the daemon that runs, through ``client``."""

    def __init__(self, client: AdminClient) -> None:
        self.client = client
        self.entry = client.entry
        self.verify = client.verify
        self.collect = client.collect
        self.entries = client.entries

    def status(self) -> admin_pb2.StoreStatus:
        return self.client.status().store


class _OfFolder:
    def __init__(self, config: DaemonConfig) -> None:
        self._config = config

    def status(self) -> admin_pb2.StoreStatus:
        status = self._with_store(_now(lambda store: store.status()))
        status.max_bytes = self._config.store_max_bytes
        return status

    def entries(self, limit: int | None) -> Iterator[admin_pb2.Entry]:
        return iter(self._with_store(_now(lambda store: [entry_of(record) for record in pages(store, limit)])))

    def entry(self, key: str) -> admin_pb2.Entry:
        tenant, digits = split(key)
        if len(digits) < _MIN_PREFIX:
            raise BadRequest(f"{key!r} is too short; give at least {_MIN_PREFIX} digits of a key.")

        prefix = scoped(tenant, digits.lower())

        async def match(store: Store) -> list[admin_pb2.Entry]:
            return [entry_of(record, await store.key_parts(record.key)) for record in store.match(prefix)]

        found = self._with_store(match)
        if not found:
            raise NotFound(f"No stored key begins with {key}.")
        if len(found) > 1:
            raise BadRequest(f"{key} fits {len(found)} keys; give more digits.")
        return found[0]

    def verify(self) -> admin_pb2.VerifyStoreResponse:
        async def verify(store: Store) -> admin_pb2.VerifyStoreResponse:
            checked, quarantined = await store.verify()
            return admin_pb2.VerifyStoreResponse(checked=checked, quarantined=quarantined)

        return self._with_store(verify)

    def collect(self, max_bytes: int | None) -> admin_pb2.CollectGarbageResponse:
        async def collect(store: Store) -> admin_pb2.CollectGarbageResponse:
            evicted, freed = await store.collect(self._config.store_max_bytes if max_bytes is None else max_bytes)
            return admin_pb2.CollectGarbageResponse(evicted=evicted, freed_bytes=freed, bytes=store.status().bytes)

        return self._with_store(collect)

    def _with_store(self, use: Callable[[Store], Awaitable[T]]) -> T:
        if not self._config.store_path.exists():
            # Opening would make one, which nobody asked for.
            raise NotFound(f"There is no store at {self._config.store_path}, and no daemon answers.")

        async def whole() -> T:
            # No bound: opening evicts what is over it, which nobody who lists a store wants. The daemon that fills it
            # may have been started with another bound than the settings here say.
            store = await Store.open(self._config.store_path, max_bytes=sys.maxsize, memory_bytes=0)
            try:
                return await use(store)
            finally:
                await store.close()

        return asyncio.run(whole())


def _now(use: Callable[[Store], T]) -> Callable[[Store], Awaitable[T]]:
    async def at_once(store: Store) -> T:
        return use(store)

    return at_once


def pages(store: Store, limit: int | None) -> Iterator[Record]:
    """Records of a store, most recently used first, at most ``limit``."""
    after: str | None = None
    left = limit
    while left is None or left > 0:
        page = store.list(after=after, limit=_PAGE if left is None else min(_PAGE, left))
        yield from page
        if not page:
            return
        after = page[-1].key
        if left is not None:
            left -= len(page)


@contextlib.contextmanager
def open_artifacts(config: DaemonConfig, folder: Path | None = None) -> Iterator[Artifacts]:
    """The daemon's artifacts when one runs at the configured address, else those of the configured folder, unless the
    address leads over TCP.

    ``folder`` names a store: the daemon is asked only if it serves that one.
    """
    with AdminClient(config.address) as client:
        try:
            served = Path(client.status().store.path)
        except DaemonAbsent:
            if isinstance(parse_address(config.address), TcpAddress):
                raise
            served = None
        if served is not None and (folder is None or folder.absolute() == served):
            yield OfDaemon(client)
            return
    yield _OfFolder(config)
