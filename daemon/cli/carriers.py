"""Artifacts into and out of a store, whole: through the daemon that runs, or in the store's folder when none does."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from inductord.daemon.cli.artifacts import OfDaemon, open_artifacts, pages
from inductord.daemon.client import AdminClient, NotFound
from inductord.daemon.config import DaemonConfig
from inductord.daemon.entries import entry_of
from inductord.daemon.shared.events import Put
from inductord.daemon.shared.sealed import Refusal, Unsealed
from inductord.daemon.store import Store
from inductord.daemon.tenancy import OWNER, split
from inductord.v1 import admin_pb2


class Carrier(Protocol):
    """``takes_unsigned``: whether it leaves it to the caller to verify what it is given."""

    takes_unsigned: bool

    def entries(self) -> list[admin_pb2.Entry]:
        """All entries of the owner, most recently used first, without the parts of their keys. What is a tenant's stays."""

    def read(self, key: str) -> tuple[admin_pb2.Entry, bytes] | None:
        """One artifact with its entry; None when it is gone or damaged."""

    def put(self, key: str, sealed: bytes, unsealed: Unsealed) -> Put | Refusal:
        """Store one artifact, given as it was sealed and as that was verified. Whole or not at all."""


class _ToDaemon:
    takes_unsigned = False

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def entries(self) -> list[admin_pb2.Entry]:
        return [entry for entry in self._client.entries() if split(entry.key)[0] == OWNER]

    def read(self, key: str) -> tuple[admin_pb2.Entry, bytes] | None:
        try:
            return self._client.entry(key), self._client.read_artifact(key)
        except NotFound:
            return None

    def put(self, key: str, sealed: bytes, unsealed: Unsealed) -> Put | Refusal:
        answer = self._client.put_artifact(key, sealed)
        match answer.outcome:
            case admin_pb2.PUT_OUTCOME_STORED:
                return Put.STORED
            case admin_pb2.PUT_OUTCOME_PRESENT:
                return Put.PRESENT
        return Refusal(answer.reason)


class _ToFolder:
    takes_unsigned = True

    def __init__(self, store: Store, runner: asyncio.Runner) -> None:
        self._store = store
        self._runner = runner

    def entries(self) -> list[admin_pb2.Entry]:
        return [entry_of(record) for record in pages(self._store, None) if split(record.key)[0] == OWNER]

    def read(self, key: str) -> tuple[admin_pb2.Entry, bytes] | None:
        async def read() -> tuple[admin_pb2.Entry, bytes] | None:
            found = await self._store.read(key, counts=False)
            return None if found is None else (entry_of(found[0], await self._store.key_parts(key)), found[1])

        return self._runner.run(read())

    def put(self, key: str, sealed: bytes, unsealed: Unsealed) -> Put | Refusal:
        if self._store.find(key) is not None:
            return Put.PRESENT
        self._runner.run(self._store.publish(key, unsealed.content, unsealed.meta()))
        return Put.STORED


@contextlib.contextmanager
def open_carrier(config: DaemonConfig, folder: Path | None, *, make: bool) -> Iterator[Carrier]:
    """The daemon at the configured address, else the configured folder; ``folder`` names a store, as for other commands.

    ``make``: a store that is not there is made.

    Raises:
        NotFound: it is not there and not to be made.
        StoreBusy, StoreUnusable, ClientError: as the commands of ``store`` do.
    """
    with open_artifacts(config, folder) as artifacts:
        if isinstance(artifacts, OfDaemon):
            yield _ToDaemon(artifacts.client)
            return
    if not make and not config.store_path.exists():
        raise NotFound(f"There is no store at {config.store_path}, and no daemon answers.")
    with asyncio.Runner() as runner:
        store = runner.run(_open(config))
        try:
            yield _ToFolder(store, runner)
        finally:
            runner.run(store.close())


async def _open(config: DaemonConfig) -> Store:
    # No bound: whoever looks at a store does not want it to shrink. The next daemon keeps to its own.
    return await Store.open(config.store_path, max_bytes=sys.maxsize, memory_bytes=0)
