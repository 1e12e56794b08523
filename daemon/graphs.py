"""Graphs that wait to be compiled, in memory, under one bound for all of them.

Pure bookkeeping. A reservation is made before the first byte is taken, so that many uploads at once stay in bounds too.
"""

import contextlib
from collections.abc import Iterator

from inductord.daemon.errors import OverLimit


class GraphBuffer:
    """Graphs by key, at most ``max_bytes`` in sum, uploads in progress included."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._uploading = 0
        self._held = 0
        self._graphs: dict[str, bytes] = {}

    @property
    def pending_bytes(self) -> int:
        """Bytes held or reserved."""
        return self._held + self._uploading

    @contextlib.contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Room for an upload of ``size`` bytes while the context lasts.

        Raises:
            OverLimit: when there is none.
        """
        if self.pending_bytes + size > self._max_bytes:
            raise OverLimit(
                f"{self.pending_bytes} bytes of graphs wait already and {self._max_bytes} are allowed. "
                "Raise max_pending_bytes if this happens often."
            )
        self._uploading += size
        try:
            yield
        finally:
            self._uploading -= size

    def put(self, key: str, graph: bytes) -> None:
        """Hold a graph. Call it within its reservation: the room passes over."""
        self.forget(key)
        self._graphs[key] = graph
        self._held += len(graph)

    def get(self, key: str) -> bytes:
        """The graph of ``key``; KeyError when none is held."""
        return self._graphs[key]

    def forget(self, key: str) -> None:
        """Let a graph go, if there is one."""
        graph = self._graphs.pop(key, None)
        if graph is not None:
            self._held -= len(graph)
