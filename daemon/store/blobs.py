"""Artifacts as files, named by their SHA-256, and the quarantine of damaged ones. Blocking.

A blob appears under its name whole or not at all: it is written elsewhere in the same file system, synced and renamed.
What is read is compared with its name, every time. This module knows no keys and keeps no state.
"""

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger("inductord.store")

_BLOB_NAME = re.compile(r"[0-9a-f]{64}")
_QUARANTINE_FILES = 16
_QUARANTINE_BYTES = 256 << 20


class BlobDamaged(Exception):
    """The blob is not what its name says. The message says how."""


class BlobFiles:
    """The folders ``blobs``, ``tmp`` and ``quarantine`` of a store.

    Apart from ``sweep_temporary``, which is for the time before others write, methods may run in several threads.
    """

    def __init__(self, store: Path) -> None:
        self._blobs = store / "blobs"
        self._temporary = store / "tmp"
        self._quarantine = store / "quarantine"

    def prepare(self) -> None:
        """Make the folders, for their owner alone: an artifact is code."""
        for folder in (self._blobs, self._temporary, self._quarantine):
            folder.mkdir(mode=0o700, exist_ok=True)

    def sweep_temporary(self) -> int:
        """Remove what a writer left behind that was killed. Returns how many files."""
        swept = 0
        for path in self._temporary.iterdir():
            path.unlink()
            swept += 1
        return swept

    def scan(self) -> Iterator[tuple[bytes, int]]:
        """Digest and size of every blob that is there. Files with other names are left alone."""
        # Plain strings: this runs over every file before the daemon can answer, and paths cost several times as much.
        with os.scandir(self._blobs) as folders:
            shards = [folder for folder in folders if folder.is_dir()]
        for shard in shards:
            with os.scandir(shard) as files:
                for file in files:
                    if _BLOB_NAME.fullmatch(file.name) and file.name[:2] == shard.name:
                        yield bytes.fromhex(file.name), file.stat().st_size

    def read(self, sha256: bytes, size: int) -> bytes:
        """The blob, whole and verified.

        Raises:
            BlobDamaged: its size or its digest is wrong, or it is missing.
            OSError: it cannot be read.
        """
        try:
            with self.path(sha256).open("rb", buffering=0) as file:
                found = os.fstat(file.fileno()).st_size
                if found != size:
                    raise BlobDamaged(f"{found} bytes instead of {size}")
                data = file.read(size)
        except FileNotFoundError:
            raise BlobDamaged("the file is missing") from None
        if len(data) != size or hashlib.sha256(data).digest() != sha256:
            raise BlobDamaged("its digest does not match")
        return data

    def write(self, sha256: bytes, data: bytes) -> None:
        """Publish a blob, over whatever is there under its name. On return it is on disk.

        Raises:
            OSError: the disk does not take it. Nothing is left behind.
        """
        temporary = self._temporary / f"{sha256.hex()}-{time.monotonic_ns():x}"
        path = self.path(sha256)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            temporary.rename(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def remove(self, sha256: bytes) -> None:
        """Remove a blob; a missing one is fine."""
        self.path(sha256).unlink(missing_ok=True)

    def quarantine(self, sha256: bytes) -> None:
        """Move a damaged blob where it is served no more but can be looked at; a missing one is fine."""
        try:
            self._set_aside(self.path(sha256))
        except FileNotFoundError:
            return

    def quarantine_file(self, path: Path) -> None:
        """The same for a file that is no blob, such as a damaged index."""
        self._set_aside(path)

    def path(self, sha256: bytes) -> Path:
        """The file of a blob, be it there or not."""
        name = sha256.hex()
        return self._blobs / name[:2] / name

    def _set_aside(self, path: Path) -> None:
        # The time leads the name, so that the order of names is that of arrival.
        path.rename(self._quarantine / f"{time.time_ns():020d}-{path.name}")
        size = 0
        for kept, old in enumerate(sorted(self._quarantine.iterdir(), reverse=True), start=1):
            size += old.stat().st_size
            if kept > _QUARANTINE_FILES or size > _QUARANTINE_BYTES:
                _log.info("removing %s from quarantine to make room", old.name)
                old.unlink()
