"""Areas over the width of the page: how much of something there is at each place. Pure."""

from collections.abc import Sequence

from inductord.daemon.report.marks import Area
from inductord.daemon.report.scale import WIDTH, Scale

BINS = 250
_UNIT = WIDTH / BINS

Points = Sequence[tuple[float, float, float]]


def empty() -> list[float]:
    """A sum for each bin."""
    return [0.0] * BINS


def cover(bins: list[float], scale: Scale, start: float, end: float) -> None:
    """Add to each bin what part of it lies between two times."""
    left, right = scale.x(start) / _UNIT, scale.x(end) / _UNIT
    first, last = int(left), int(right)
    if first == last:
        bins[min(first, BINS - 1)] += right - left
        return
    bins[first] += first + 1 - left
    for index in range(first + 1, last):
        bins[index] += 1.0
    if last < BINS:
        bins[last] += right - last


def area(kind: str, floor: Sequence[float], top: Sequence[float]) -> Area:
    """What lies between two heights, from 0 to 1: a point for each bin in which there is something or its neighbour has, and no
    others."""
    thick = [high - low > 1e-4 for low, high in zip(floor, top, strict=True)]
    return Area(
        kind,
        [
            (index * _UNIT, floor[index], top[index])
            for index in range(BINS)
            if thick[index] or (index and thick[index - 1]) or (index + 1 < BINS and thick[index + 1])
        ],
    )


def runs(points: Points) -> list[list[tuple[float, float, float]]]:
    """Points of an area in stretches without a break, to be filled one by one."""
    stretches: list[list[tuple[float, float, float]]] = []
    for point in points:
        if not stretches or point[0] - stretches[-1][-1][0] > _UNIT * 1.5:
            stretches.append([])
        stretches[-1].append(point)
    return stretches
