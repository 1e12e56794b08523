"""The store on disk as one thing: lock, index and blobs, and what is mended when it is opened. Blocking.

The order of writes is what makes a kill at any moment harmless. To publish: blob first, row second. To remove: row
first, blob second. So a row lacks its blob only by a damage from outside, or where a full disk took no change of rows;
and a blob without a row is rubbish.
"""

import dataclasses
import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from inductord.daemon.store.blobs import BlobDamaged, BlobFiles
from inductord.daemon.store.index import Index, IndexDamaged, index_file
from inductord.daemon.store.lock import StoreLock
from inductord.daemon.store.records import Record, StoreUnusable

_log = logging.getLogger("inductord.store")


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """What opening found. ``records``: least recently used first. ``damaged``: artifacts or index set aside."""

    records: list[Record]
    damaged: int


class Disk:
    """The open folder of a store. All methods but ``read`` belong to the thread that opened it."""

    def __init__(self, lock: StoreLock, index: Index, blobs: BlobFiles) -> None:
        self._lock = lock
        self._index = index
        self._blobs = blobs

    @classmethod
    def open(cls, path: Path) -> tuple["Disk", Recovered]:
        """Open or make the store at ``path``, and mend it.

        Raises:
            StoreBusy: another process has it.
            StoreUnusable: it cannot be made, opened or mended.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.stat().st_mode & 0o022:
                _log.warning(
                    "store %s: others may write there, and an artifact is code. Mend: chmod go-w %s", path, path
                )
            lock = StoreLock(path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            blobs = BlobFiles(path)
            blobs.prepare()
            swept = blobs.sweep_temporary()
            index, damaged = _open_index(path, blobs)
            try:
                disk = cls(lock, index, blobs)
                recovered = disk._recover(damaged)
            except sqlite3.DatabaseError as error:
                index.close()
                raise StoreUnusable(path, f"its index cannot be mended: {error}.") from error
            except BaseException:
                index.close()
                raise
        except OSError as error:
            lock.release()
            raise _unusable(path, error) from error
        except BaseException:
            lock.release()
            raise
        if swept:
            _log.info("store %s: removed %d unfinished files of a writer that was killed", path, swept)
        return disk, recovered

    def _recover(self, damaged: int) -> Recovered:
        """Make rows and blobs agree."""
        records, lost = self._index.load()
        sizes = dict(self._blobs.scan())
        sound: list[Record] = []
        for record in records:
            found = sizes.get(record.sha256)
            if found == record.size:
                sound.append(record)
                continue
            lost.append(record.key)
            how = "is missing" if found is None else f"has {found} bytes instead of {record.size}"
            _log.warning("store: the artifact of %s %s; it will be compiled again", record.key, how)
        if lost:
            self._index.delete(lost)
        named = {record.sha256 for record in sound}
        misshapen = {record.sha256 for record in records} - named
        damaged += len(misshapen)
        for sha256 in sizes.keys() - named:
            if sha256 in misshapen:
                self._blobs.quarantine(sha256)
            else:
                self._blobs.remove(sha256)
        return Recovered(sound, damaged)

    def path(self, sha256: bytes) -> Path:
        """The file of a blob."""
        return self._blobs.path(sha256)

    def read(self, sha256: bytes, size: int) -> bytes:
        """A blob, verified; from any thread.

        Raises:
            BlobDamaged, OSError: see ``BlobFiles.read``.
        """
        return self._blobs.read(sha256, size)

    def write(self, record: Record, data: bytes, *, shared: bool) -> None:
        """Publish an artifact: when this returns it is whole and will be found by the next open.

        ``shared``: another entry has the same blob.

        Raises:
            OSError, sqlite3.DatabaseError: the disk does not take it; the entry is not there.
        """
        self._blobs.write(record.sha256, data)
        try:
            self._index.insert(record)
        except sqlite3.DatabaseError:
            if not shared:
                self._blobs.remove(record.sha256)
            raise

    def remove(self, keys: Iterable[str], sha256: bytes) -> None:
        """Remove a blob and all entries that have it. Errors as in ``write``, when it was not removed."""
        try:
            self._index.delete(keys)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_FULL:
                raise
            # SQLite writes also to delete: the blob makes room for that.
            self._blobs.remove(sha256)
            self._delete_later(keys)
            return
        self._blobs.remove(sha256)

    def _delete_later(self, keys: Iterable[str]) -> None:
        try:
            self._index.delete(keys)
        except sqlite3.DatabaseError as error:
            _log.warning("store: rows of removed artifacts stay until the store is opened again: %s", error)

    def condemn(self, keys: Iterable[str], sha256: bytes) -> None:
        """Remove the entries of a damaged blob and set it aside. Errors as in ``write``."""
        self._index.delete(keys)
        self._blobs.quarantine(sha256)

    def key_parts(self, key: str) -> dict[str, str]:
        """The parts of one key; none when they cannot be read, which is logged."""
        try:
            return self._index.key_parts(key)
        except sqlite3.DatabaseError as error:
            _log.error("store: the parts of %s cannot be read: %s", key, error)
            return {}

    def save_uses(self, records: Iterable[Record]) -> None:
        """Write counts and times of use. Errors as in ``write``."""
        self._index.save_uses(records)

    def close(self) -> None:
        self._index.close()
        self._lock.release()


def _open_index(path: Path, blobs: BlobFiles) -> tuple[Index, int]:
    """The index, and 1 if a damaged one was set aside for it; then the store is empty, since blobs need rows."""
    try:
        return Index(path), 0
    except IndexDamaged as damage:
        _log.error("store %s: its index is damaged (%s). It is set aside and the store starts empty.", path, damage)
    for file in sorted(path.glob(index_file(path).name + "*")):
        blobs.quarantine_file(file)
    return Index(path), 1


def _unusable(path: Path, error: OSError) -> StoreUnusable:
    return StoreUnusable(
        path, f"{error.strerror or error} ({error.filename or path}). Mend that, or choose another folder with --store."
    )


__all__ = ["BlobDamaged", "Disk", "Recovered"]
