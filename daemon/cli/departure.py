"""Knowing when a daemon is really gone: its socket goes first, but only the end of its process frees socket lock and store
for the next one."""

import os
import select
from types import TracebackType
from typing import Self

from inductord.daemon.client import listener_pid, why_unreachable


class Departure:
    """Watches whoever listens at ``address`` when it is entered."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._process: int | None = None

    def __enter__(self) -> Self:
        pid = listener_pid(self._address)
        if pid is not None:
            try:
                self._process = os.pidfd_open(pid)
            except OSError:
                # It ended just now, or the kernel has no pidfd. The socket is then what can be watched.
                self._process = None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._process is not None:
            os.close(self._process)

    def over(self) -> bool:
        """Whether it is gone. Does not block."""
        if self._process is None:
            return why_unreachable(self._address) is not None
        return bool(select.select([self._process], [], [], 0)[0])
