"""What this rank tells of how its graphs were cut: kept until the daemon has it, bounded, each cut once.

Also notes which keys are asked for while a graph is compiled, so that a report can say which graph a key belongs to.
"""

import contextlib
import contextvars
import threading
from collections.abc import Generator, Iterable

from inductord.v1.cut_pb2 import GraphCut

MAX_CUTS = 64
"""Kept per process: the newest. A job with more distinct graphs compiles all the time."""

MAX_CUTS_A_REPORT = 16

_noted: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("inductord_noted_keys", default=None)


@contextlib.contextmanager
def noting_keys() -> Generator[list[str]]:
    """The keys (64 hex digits) that are asked for inside, in order."""
    keys: list[str] = []
    token = _noted.set(keys)
    try:
        yield keys
    finally:
        _noted.reset(token)


def note_key(key: str) -> None:
    """A graph is asked for under this key."""
    noted = _noted.get()
    if noted is not None:
        noted.append(key)


class CutLog:
    """Cuts of one process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By content: whether the daemon has it. Frames that are compiled again may be cut as they were.
        self._cuts: dict[bytes, bool] = {}

    def add(self, cut: GraphCut) -> None:
        """A graph was cut, or compiled whole."""
        with self._lock:
            self._cuts.setdefault(_content(cut), False)
            while len(self._cuts) > MAX_CUTS:
                del self._cuts[next(iter(self._cuts))]

    def untold(self) -> list[GraphCut]:
        """What the daemon does not have yet, as much as goes into one report."""
        with self._lock:
            new = [content for content, told in self._cuts.items() if not told]
        return [GraphCut.FromString(content) for content in new[:MAX_CUTS_A_REPORT]]

    def told(self, cuts: Iterable[GraphCut]) -> None:
        """The daemon has these."""
        with self._lock:
            for cut in cuts:
                if (content := _content(cut)) in self._cuts:
                    self._cuts[content] = True


def _content(cut: GraphCut) -> bytes:
    return cut.SerializeToString(deterministic=True)
