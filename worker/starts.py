"""When a pool may try again to start a worker, and when it says that it cannot. Pure: clock injected, no I/O."""

from collections.abc import Callable

_GIVE_UP_AFTER = 3
_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 60.0


class Starts:
    """Failed starts in a row. Delays double; after three failures jobs are no longer kept waiting for a worker."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._in_a_row = 0
        self._next = clock()
        self.last_failure = ""

    def failed(self, why: str, hopeless: bool = False) -> None:
        """A worker did not become ready. ``hopeless``: another would not either, so jobs are not kept waiting."""
        self._in_a_row = max(self._in_a_row + 1, _GIVE_UP_AFTER if hopeless else 0)
        self.last_failure = why
        self._next = self._clock() + min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** min(self._in_a_row - 1, 10))

    def succeeded(self) -> None:
        """A worker became ready."""
        self._in_a_row = 0
        self._next = self._clock()
        self.last_failure = ""

    @property
    def delay(self) -> float:
        """Seconds until the next start may be tried."""
        return max(0.0, self._next - self._clock())

    @property
    def given_up(self) -> bool:
        """Whether so many starts failed in a row that the fault will not go away by waiting."""
        return self._in_a_row >= _GIVE_UP_AFTER
