"""The rows of the store on disk, in SQLite. Blocking, and bound to the thread that opened it.

SQLite, because what an index needs here is what it is known for: a commit is whole or absent whenever the process is
killed, a damaged file is noticed, and people can read it with the tools they have. Lookups do not come here: the rows
are read once, into the catalog. What is in a row besides its columns is an ``Entry`` message, so that a new field needs
no migration. The parts of keys lie apart: they are most of the bytes, and only ``inductord explain`` asks for them.
"""

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from inductord.daemon.store.records import Meta, Record, StoreUnusable
from inductord.v1.admin_pb2 import Entry
from inductord.v1.compiler_pb2 import Toolchain

_log = logging.getLogger("inductord.store")

_VERSION = 2
_ENTRIES = """
CREATE TABLE entries (
    key TEXT PRIMARY KEY,
    sha256 BLOB NOT NULL,
    size INTEGER NOT NULL,
    created REAL NOT NULL,
    used REAL NOT NULL,
    uses INTEGER NOT NULL,
    meta BLOB NOT NULL
) WITHOUT ROWID
"""
_PARTS = "CREATE TABLE parts (key TEXT PRIMARY KEY, parts BLOB NOT NULL) WITHOUT ROWID"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class IndexDamaged(Exception):
    """The file is no sound index. The message is SQLite's."""


class Index:
    """The open index of a store.

    Methods that write raise ``sqlite3.OperationalError`` when the disk does not take it, or ``sqlite3.DatabaseError``
    when the file was damaged while it was open. Either way nothing of the call was written.

    Raises:
        IndexDamaged: the file is damaged.
        StoreUnusable: it is of another release, or cannot be opened.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = sqlite3.connect(index_file(store), timeout=5.0)
            self._prepare(self._connection)
        except sqlite3.DatabaseError as error:
            self.close()
            # Extended result codes keep the primary one in their low byte.
            if error.sqlite_errorcode & 0xFF in _DAMAGE:
                raise IndexDamaged(str(error)) from error
            raise StoreUnusable(store, f"its index cannot be opened: {error}.") from error
        except BaseException:
            self.close()
            raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # The store's lock admits one process, and without locks of its own SQLite needs no shared memory for its WAL,
        # which some file systems cannot give.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        # A commit outlives a killed process. A power cut may take the last ones, whose blobs are then swept as orphans.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {4 << 20}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            with connection:
                connection.execute("BEGIN")
                connection.execute(_ENTRIES)
                connection.execute(_PARTS)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise StoreUnusable(
                self._store,
                f"its index has format {version} and this release reads {_VERSION}. Give this daemon another store "
                "with --store, or delete that folder: it is a cache.",
            )
        # Of the table that is about to be read; the other one is looked at when somebody asks for it.
        verdict = connection.execute("PRAGMA quick_check('entries')").fetchone()[0]
        if verdict != "ok":
            raise IndexDamaged(verdict)

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None, "the index is closed"
        return self._connection

    def load(self) -> tuple[list[Record], list[str]]:
        """All records without the parts of their keys, least recently used first, and the keys of rows that cannot be
        read."""
        records: list[Record] = []
        unreadable: list[str] = []
        toolchains: dict[bytes, Toolchain] = {}
        rows = self._open.execute("SELECT key, sha256, size, created, used, uses, meta FROM entries ORDER BY used, key")
        for key, sha256, size, created, used, uses, meta in rows:
            try:
                records.append(Record(key, size, sha256, created, used, uses, _decode(meta, toolchains)))
            except DecodeError:
                unreadable.append(key)
        return records, unreadable

    def insert(self, record: Record) -> None:
        """Add or replace one row, committed on return."""
        with self._open as connection:
            connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", _row(record))
            parts = Entry(key_parts=record.meta.key_parts).SerializeToString()
            connection.execute("INSERT OR REPLACE INTO parts VALUES (?, ?)", (record.key, parts))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete rows in one transaction; missing ones are fine."""
        with self._open as connection:
            rows = [(key,) for key in keys]
            connection.executemany("DELETE FROM entries WHERE key = ?", rows)
            connection.executemany("DELETE FROM parts WHERE key = ?", rows)

    def key_parts(self, key: str) -> dict[str, str]:
        """The parts of one key; none when the row is not there or cannot be read."""
        row = self._open.execute("SELECT parts FROM parts WHERE key = ?", (key,)).fetchone()
        try:
            return dict(Entry.FromString(row[0]).key_parts) if row else {}
        except DecodeError:
            return {}

    def save_uses(self, records: Iterable[Record]) -> None:
        """Write counts and times of use of rows that still exist, in one transaction."""
        with self._open as connection:
            connection.executemany(
                "UPDATE entries SET used = ?, uses = ? WHERE key = ?", [(r.used, r.uses, r.key) for r in records]
            )

    def close(self) -> None:
        """Idempotent."""
        if self._connection is not None:
            try:
                self._connection.close()
            except sqlite3.DatabaseError as error:
                # Closing folds the log back into the file. Where the disk refuses that, the next open does it.
                _log.warning("store %s: the index could not be closed cleanly: %s", self._store, error)
            self._connection = None


def index_file(store: Path) -> Path:
    """Where the index of ``store`` is. SQLite keeps files beside it whose names begin with its name."""
    return store / "index.sqlite"


def _row(record: Record) -> Sequence[str | bytes | int | float]:
    meta = record.meta
    encoded = Entry(
        kind=meta.kind,
        compile_seconds=meta.compile_seconds,
        toolchain=meta.toolchain,
        nodes=meta.nodes,
        job=meta.job,
    ).SerializeToString()
    return (record.key, record.sha256, record.size, record.created, record.used, record.uses, encoded)


def _decode(encoded: bytes, toolchains: dict[bytes, Toolchain]) -> Meta:
    entry = Entry.FromString(encoded)
    # Thousands of entries have one of a few.
    toolchain = toolchains.setdefault(entry.toolchain.SerializeToString(), entry.toolchain)
    return Meta(
        kind=entry.kind,
        compile_seconds=entry.compile_seconds,
        toolchain=toolchain,
        key_parts={},
        nodes=entry.nodes,
        job=entry.job,
    )
