"""Whether anybody uses the daemon, so that one that was started for a job can leave by itself.

Pure, with an injected clock. Health checks and looking at the status are no use; asking for artifacts and reporting are.
"""

import contextlib
from collections.abc import Callable, Iterator

from inductord.v1 import compiler_pb2

_USED = compiler_pb2.DESCRIPTOR.services_by_name["CompilerService"].full_name


class Activity:
    """Counts the RPCs of ranks that run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running = 0
        self._last = clock()

    @contextlib.contextmanager
    def during(self, service: str) -> Iterator[None]:
        """One RPC of ``service`` runs while the context lasts."""
        if service != _USED:
            yield
            return
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._last = self._clock()

    def idle_seconds(self) -> float:
        """Since the last use; 0 while one runs."""
        return 0.0 if self._running else self._clock() - self._last
