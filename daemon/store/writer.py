"""Changes of the disk: one after the other, in a thread of their own, and what people are told while the disk takes none."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from inductord.daemon.store.records import StoreEvents

_log = logging.getLogger("inductord.store")

_T = TypeVar("_T")


class Writer:
    """The one thread that changes the disk of the store at ``path``.

    ``note``: a sentence for people while the disk takes no writes, else empty.
    """

    def __init__(self, path: Path, thread: ThreadPoolExecutor, events: StoreEvents) -> None:
        self._path = path
        self._thread = thread
        self._events = events
        self.note = ""

    async def run(self, work: Callable[..., _T], *args: Any) -> _T:
        """Run ``work`` in the thread; it may raise."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    async def change(self, what: str, change: Callable[..., None], *args: Any) -> bool:
        """Change the disk. False when it does not take that, which is counted and told."""
        try:
            await self.run(change, *args)
        except (OSError, sqlite3.DatabaseError) as error:
            note = (
                f"Cannot {what} in {self._path}: {error}. New artifacts are kept in memory only, and old ones fall out "
                "of it. Free space there or make it writable; nothing needs a restart."
            )
            # A full disk fails every write; the log need not say so every time.
            _log.log(logging.DEBUG if self.note else logging.ERROR, "%s", note)
            self.note = note
            self._events.write_failed()
            return False
        return True

    def recovered(self) -> None:
        """The disk takes writes again, and has what it did not take before."""
        if self.note:
            _log.info("store %s: the disk takes writes again", self._path)
            self.note = ""

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()
