"""Small values by tenant, cache and key, in SQLite beside the store: entries of PyTorch's own remote caches.

A cache, so whatever goes wrong with the file ends in an empty one. Blocking, and bound to one thread; ``CacheService`` gives it
one of its own. The store's lock admits one daemon to the folder.
"""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger("inductord.cache")

MAX_BYTES = 512 << 20
"""Of all values together."""

_TABLE = """
CREATE TABLE IF NOT EXISTS blobs (
    tenant TEXT NOT NULL,
    cache TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    used REAL NOT NULL,
    PRIMARY KEY (tenant, cache, key)
)
"""
_PLACE = "tenant = ? AND cache = ? AND key = ?"


class BlobCache:
    """Values in the file ``path``, at most ``max_bytes`` of them; the least recently used go first. ``clock`` gives seconds.

    ``failures``: how often the file could not be read or written, or was damaged and begun anew.
    """

    def __init__(self, path: Path, clock: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._clock = clock
        self._max_bytes = max_bytes
        self._connection: sqlite3.Connection | None = None
        self.failures = 0

    def get(self, tenant: str, cache: str, key: str) -> bytes | None:
        """The value, or None; counts as a use."""
        try:
            with self._opened() as connection:
                place = (tenant, cache, key)
                row = connection.execute(f"SELECT value FROM blobs WHERE {_PLACE}", place).fetchone()
                if row is None:
                    return None
                connection.execute(f"UPDATE blobs SET used = ? WHERE {_PLACE}", (self._clock(), *place))
                return bytes(row[0])
        except sqlite3.Error as error:
            self._failed("read", error)
            return None

    def put(self, tenant: str, cache: str, key: str, value: bytes) -> bool:
        """Keep a value in place of the one that may be there. False: the disk does not take it, or it is too large."""
        if len(value) > self._max_bytes:
            return False
        try:
            with self._opened() as connection:
                row = (tenant, cache, key, value, self._clock())
                connection.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?, ?)", row)
                self._evict(connection)
            return True
        except sqlite3.Error as error:
            self._failed("write", error)
            return False

    def _evict(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "DELETE FROM blobs WHERE rowid IN (SELECT rowid FROM (SELECT rowid, "
            "SUM(LENGTH(value)) OVER (ORDER BY used DESC, rowid DESC) AS total FROM blobs) WHERE total > ?)",
            (self._max_bytes,),
        )

    def close(self) -> None:
        """Idempotent; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self._path, timeout=5.0)
            try:
                connection.execute(_TABLE)
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _failed(self, what: str, error: sqlite3.Error) -> None:
        self.failures += 1
        self.close()
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            _log.error("the cache %s is damaged (%s) and begins anew", self._path, error)
            try:
                self._path.unlink(missing_ok=True)
            except OSError as stuck:
                _log.error("the cache %s cannot be removed, so nothing is kept there: %s", self._path, stuck)
        else:
            _log.warning("the cache %s: cannot %s: %s", self._path, what, error)
