"""When to leave a store alone that fails, and when to try it again. Pure, with an injected clock.

CLOSED ── failures in a row ──▶ OPEN ── rest over ──▶ one trial ── success ──▶ CLOSED
                                 ▲                        └── failure: a longer rest ──┐
                                 └─────────────────────────────────────────────────────┘
"""

from collections.abc import Callable


class Breaker:
    """``failures``: how many in a row open it. ``rest`` and ``max_rest``: seconds; each failed trial doubles the rest."""

    def __init__(
        self, clock: Callable[[], float], *, failures: int = 3, rest: float = 30.0, max_rest: float = 300.0
    ) -> None:
        self._clock = clock
        self._failures = failures
        self._first_rest = rest
        self._max_rest = max_rest
        self._in_a_row = 0
        self._rest = rest
        self._until: float | None = None
        self._trial = False

    @property
    def open(self) -> bool:
        """Whether the store is left alone, but for a trial now and then."""
        return self._until is not None

    @property
    def rest_left(self) -> float:
        """Seconds until the next trial; 0 when one may be made."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    def allows(self) -> bool:
        """Whether to try now. While open only one caller hears yes per rest, and has to tell how it went."""
        if self._until is None:
            return True
        if self._clock() < self._until:
            return False
        # The trial's own end moves this; should nobody tell, the next trial is a rest away.
        self._until = self._clock() + self._rest
        self._trial = True
        return True

    def succeeded(self) -> bool:
        """A try went well. True when that closed the breaker."""
        closed = self.open
        self._in_a_row, self._rest, self._until, self._trial = 0, self._first_rest, None, False
        return closed

    def failed(self) -> bool:
        """A try failed. True when that opened the breaker."""
        self._in_a_row += 1
        if self._until is not None:
            # What began before it opened says nothing new.
            if self._trial:
                self._trial = False
                self._rest = min(2 * self._rest, self._max_rest)
                self._until = self._clock() + self._rest
            return False
        if self._in_a_row < self._failures:
            return False
        self._until = self._clock() + self._rest
        return True
