"""From time to place on the page. A job compiles at its start and then now and again: long quiet times are drawn short, so that
what happened can be seen. Pure."""

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterable

WIDTH = 10_000.0
"""Units across the page."""

_MAX_GAPS = 12
_GAP_UNITS = 250.0
_MIN_GAP_S = 20.0
# A gap is worth cutting out when it is longer than this part of all that is not cut out.
_WORTH = 0.15
_TICKS = 10
_STEPS = (1, 2, 5)
_SIXTIES = (10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time, from ``start`` to ``end`` seconds, that is drawn from ``x`` to ``x_end`` units. ``quiet``: nothing
    happened in it."""

    start: float
    end: float
    x: float
    x_end: float
    quiet: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """A label on the axis: seconds since the start, at ``x`` units."""

    x: float
    seconds: float


class Scale:
    """Maps seconds since 1970 to units. ``pieces`` cover the whole, in order."""

    def __init__(self, busy: Iterable[tuple[float, float]]) -> None:
        stretches = _with_gaps(merged_stretches(busy) or [(0.0, 1.0)])
        shown = sum(end - start for start, end, quiet in stretches if not quiet)
        quiet_count = sum(quiet for _, _, quiet in stretches)
        units = (WIDTH - quiet_count * _GAP_UNITS) / max(shown, 1e-9)
        self.pieces: list[Piece] = []
        x = 0.0
        for start, end, quiet in stretches:
            x_end = x + (_GAP_UNITS if quiet else (end - start) * units)
            self.pieces.append(Piece(start, end, x, x_end, quiet))
            x = x_end
        self._starts = [piece.start for piece in self.pieces]
        self.start, self.end = self.pieces[0].start, self.pieces[-1].end
        self._shown = shown

    def x(self, time: float) -> float:
        """Where a moment is drawn; outside of the scale at its nearer end."""
        index = max(bisect.bisect_right(self._starts, time) - 1, 0)
        piece = self.pieces[index]
        part = (time - piece.start) / max(piece.end - piece.start, 1e-9)
        return piece.x + min(max(part, 0.0), 1.0) * (piece.x_end - piece.x)

    def ticks(self) -> list[Tick]:
        """Labels at round numbers of seconds since the start, where something happened."""
        step = _round_step(self._shown / _TICKS)
        found = []
        for piece in self.pieces:
            if piece.quiet:
                continue
            number = math.ceil((piece.start - self.start) / step - 1e-9)
            while (time := self.start + number * step) <= piece.end + 1e-9:
                found.append(Tick(self.x(time), number * step))
                number += 1
        return found


def merged_stretches(busy: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Stretches of time in order, with those that overlap or touch made one."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(busy):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, max(end, start)))
    return merged


def _with_gaps(busy: list[tuple[float, float]]) -> list[tuple[float, float, bool]]:
    """Busy stretches with the quiet ones that are worth cutting between them; short pauses become part of the busy."""
    pauses = sorted(
        ((after[0] - before[1], index) for index, (before, after) in enumerate(itertools.pairwise(busy))),
        reverse=True,
    )
    shown = busy[-1][1] - busy[0][0]
    cut = set()
    for pause, index in pauses[:_MAX_GAPS]:
        if pause < _MIN_GAP_S or pause < _WORTH * (shown - pause):
            break
        shown -= pause
        cut.add(index)
    stretches: list[tuple[float, float, bool]] = []
    start = busy[0][0]
    for index, (_, end) in enumerate(busy):
        if index in cut:
            stretches += [(start, end, False), (end, busy[index + 1][0], True)]
            start = busy[index + 1][0]
    stretches.append((start, max(busy[-1][1], start + 1e-3), False))
    return stretches


def _round_step(least: float) -> float:
    if least >= _SIXTIES[0] / 2:
        return float(next((step for step in _SIXTIES if step >= least), _SIXTIES[-1] * math.ceil(least / _SIXTIES[-1])))
    power = 10.0 ** math.floor(math.log10(max(least, 1e-6)))
    return next(step * power for step in (*_STEPS, 10) if step * power >= least)
