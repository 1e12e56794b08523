"""A value that is read from files, and read anew when they change.

Files are looked at when the value is asked for, at most once a second, so nothing runs in the background. What cannot be
read anew is logged and counted, and the last good value stays in force: a half-written file must not lock everybody out.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_log = logging.getLogger("inductord.auth")

_T = TypeVar("_T")
_LOOK_EVERY_S = 1.0

_Look = tuple[tuple[int, int, int] | None, ...]


class AuthError(Exception):
    """The listener cannot be had as it is configured. The message says why and what to do."""


class Watched(Generic[_T]):
    """``read`` makes the value, and raises ``refused`` for files that cannot be used. Safe to use from several threads.

    ``failed`` is told of each reading that went wrong, once per change of the files.

    Raises:
        what ``refused`` is: at the first reading.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[], _T],
        failed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        refused: type[Exception] = AuthError,
    ) -> None:
        self._paths = paths
        self._read = read
        self._failed = failed
        self._clock = clock
        self._refused = refused
        self._lock = threading.Lock()
        self._look = _look(paths)
        self._value = read()
        self._next = clock() + _LOOK_EVERY_S

    def current(self) -> _T:
        """The value, anew if the files have changed."""
        with self._lock:
            if self._clock() >= self._next:
                self._next = self._clock() + _LOOK_EVERY_S
                self._refresh()
            return self._value

    def _refresh(self) -> None:
        look = _look(self._paths)
        if look == self._look:
            return
        # Noted first: if they change while they are read, the next look sees it.
        self._look = look
        names = ", ".join(map(str, self._paths))
        try:
            self._value = self._read()
        except self._refused as error:
            self._failed()
            _log.error("%s What was read before stays in force until %s can be read.", error, names)
        else:
            _log.info("read %s anew", names)


def _look(paths: Sequence[Path]) -> _Look:
    return tuple(_identity(path) for path in paths)


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
