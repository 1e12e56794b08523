"""One daemon per store: an exclusive ``flock`` on a file in its folder. Blocking calls, all short."""

import fcntl
import logging
import os
from pathlib import Path

from inductord.daemon.store.records import StoreBusy

_log = logging.getLogger("inductord.store")


class StoreLock:
    """Held from construction to ``release``, or to the end of the process, however it ends.

    Raises:
        StoreBusy: another process, or another store of this process, holds it.
        OSError: the file cannot be made.
    """

    def __init__(self, store: Path) -> None:
        # The file is never removed: another process may be about to lock the inode.
        self._fd = os.open(store / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreBusy(store, self._owner()) from None
            self._sign()
        except BaseException:
            os.close(self._fd)
            raise

    def _sign(self) -> None:
        # For people only; on a full disk the store still serves what it has.
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            _log.warning("cannot write the pid into the lock of the store: %s", error)

    def _owner(self) -> int | None:
        text = os.pread(self._fd, 32, 0).strip()
        return int(text) if text.isdigit() else None

    def release(self) -> None:
        os.close(self._fd)
