"""A pool's private folder for its workers' caches, and the clearing away of those that dead daemons left.

Each daemon holds a lock on its folder for as long as it lives. A folder whose lock is free belongs to nobody.
"""

import fcntl
import logging
import os
import shutil
import tempfile
from pathlib import Path

_log = logging.getLogger("inductord.pool")
_PREFIX = "pool-"
_LOCK = "lock"


class Scratch:
    """One pool's folder under ``parent``, mode 0700, with one subfolder a worker.

    Raises:
        OSError: ``parent`` cannot be made or written.
    """

    def __init__(self, parent: Path) -> None:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def for_worker(self) -> Path:
        """A new folder for one worker, with its ``tmp``."""
        folder = Path(tempfile.mkdtemp(prefix="worker-", dir=self.path))
        (folder / "tmp").mkdir()
        return folder

    def close(self) -> None:
        """Remove the folder and let go of the lock."""
        remove(self.path)
        os.close(self._lock)


def remove(folder: Path) -> None:
    """Remove a folder; what cannot be removed is logged and left to the next daemon."""
    shutil.rmtree(folder, onerror=lambda _call, path, error: _log.warning("cannot remove %s: %s", path, error[1]))


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(_PREFIX + "*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # Another daemon is between making its folder and locking it, or removed it.
        except OSError as error:
            _log.warning("cannot look at %s: %s", folder, error)
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            _log.info("removing %s, which a daemon that died left", folder)
            remove(folder)
        finally:
            os.close(lock)
