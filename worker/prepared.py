"""What the C++ compiler did once for a worker, kept for later workers: probes of vector units, the precompiled header.

Together these cost about 20 CPU-seconds, every time with the same result: their names are digests of compiler, flags and
source. Files are links, taken from a worker that is ready and has had no job yet, so each is whole.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

_log = logging.getLogger("inductord.pool")

# As `environment.worker_environment` lays them out: Inductor's cache, and its precompiled headers, which it keeps among
# the temporary files.
_PATTERNS = ("inductor/*/*", "tmp/torchinductor_*/precompiled_headers/*")
_MAX_BYTES = 1 << 30


class Prepared:
    """A folder of such files, shared by all workers that use this scratch folder, of this daemon and later ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def give(self, worker: Path) -> None:
        """Link what there is into the folder of a worker that is about to start."""
        self._link_all(self._folder, worker)

    def take(self, worker: Path) -> None:
        """Keep what a worker made until it was ready. Removes the oldest files when they are too many."""
        self._link_all(worker, self._folder)
        self._bound()

    def _link_all(self, source: Path, target: Path) -> None:
        for path in _files(source):
            copy = target / path.relative_to(source)
            try:
                copy.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, copy)
            except FileExistsError:
                continue
            except OSError as error:
                # The worker makes by itself what it is not given.
                _log.info("cannot keep what the C++ compiler prepared: %s", error)
                return

    def _bound(self) -> None:
        newest_first = sorted(((path.stat(), path) for path in _files(self._folder)), key=lambda row: -row[0].st_mtime)
        total = 0
        for stat, path in newest_first:
            total += stat.st_size
            if total > _MAX_BYTES:
                path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    for pattern in _PATTERNS:
        yield from (path for path in folder.glob(pattern) if path.is_file() and path.parent.name != "locks")
