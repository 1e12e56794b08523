"""Ranks by the hundred: lanes that show what part of a group of ranks does what, in place of each rank by itself. Pure.

A page with a rectangle for each stage of a thousand ranks is too large to load and too dense to read. What matters at that
size is whether ranks wait together, and which of them are late.
"""

from collections.abc import Sequence

from inductord.daemon.cli import words
from inductord.daemon.report.facts import Facts, RankFacts
from inductord.daemon.report.marks import RANK_KINDS, Area, Lane, kind_of_stage
from inductord.daemon.report.scale import WIDTH, Scale
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.compiler_pb2 import STAGE_KIND_SERIALIZE, RankSpan
from inductord.v1.timeline_pb2 import RankTimeline

MOST_RANKS = 64
MOST_SPANS = 6000
"""More than these, and ranks are drawn in groups."""

_GROUPS = 32
_BINS = 250


def is_crowd(timeline: Timeline) -> bool:
    """Whether there are too many ranks or spans to be drawn one by one."""
    return len(timeline.ranks) > MOST_RANKS or sum(len(rank.spans) for rank in timeline.ranks) > MOST_SPANS


def group_lanes(timeline: Timeline, facts: Facts, scale: Scale) -> list[Lane]:
    """At most 32 lanes of about as many ranks each."""
    size = -(-len(timeline.ranks) // _GROUPS)
    lanes = []
    for start in range(0, len(timeline.ranks), size):
        ranks, of_ranks = timeline.ranks[start : start + size], facts.ranks[start : start + size]
        lanes.append(_group_lane(ranks, of_ranks, scale))
    return lanes


def _group_lane(ranks: Sequence[RankTimeline], of_ranks: Sequence[RankFacts], scale: Scale) -> Lane:
    first, last = ranks[0].rank, ranks[-1].rank
    count = len(ranks)
    mean = sum(rank.wait for rank in of_ranks) / count
    worst = max(of_ranks, key=lambda rank: rank.wait)
    label = f"rank {first}" if first == last else f"ranks {first}–{last}"
    return Lane(
        label=label,
        note="",
        summary=f"{label}: waited {words.duration(mean)} on average, "
        f"rank {worst.rank} most with {words.duration(worst.wait)}.",
        areas=_areas(ranks, scale),
    )


def _areas(ranks: Sequence[RankTimeline], scale: Scale) -> list[Area]:
    covered = {kind: [0.0] * _BINS for kind in RANK_KINDS}
    for rank in ranks:
        for span in rank.spans:
            _cover(covered, span, scale)
    frames, others = covered.pop("trace"), list(covered.values())
    # A frame lasts over its graphs; what they do is taken off it.
    covered = {
        "trace": [max(frame - sum(parts), 0.0) for frame, *parts in zip(frames, *others, strict=True)],
        **covered,
    }
    floor = [0.0] * _BINS
    areas = []
    for kind, shares in covered.items():
        top = [min(low + share / len(ranks), 1.0) for low, share in zip(floor, shares, strict=True)]
        if any(share > 0 for share in shares):
            areas.append(Area(kind, _outline(floor, top)))
        floor = top
    return areas


def _cover(covered: dict[str, list[float]], span: RankSpan, scale: Scale) -> None:
    unit = WIDTH / _BINS
    begin = span.start_unix
    for stage in span.stages:
        if stage.kind == STAGE_KIND_SERIALIZE:
            continue  # It lies within the wait.
        start = begin + stage.offset_seconds
        left, right = scale.x(start) / unit, scale.x(start + stage.seconds) / unit
        bins = covered[kind_of_stage(span, stage.kind)]
        first, last = int(left), int(right)
        if first == last:
            bins[min(first, _BINS - 1)] += right - left
            continue
        bins[first] += first + 1 - left
        for index in range(first + 1, last):
            bins[index] += 1.0
        if last < _BINS:
            bins[last] += right - last


def _outline(floor: Sequence[float], top: Sequence[float]) -> list[tuple[float, float, float]]:
    """One point for each bin in which the area is there or its neighbour is, and no others."""
    unit = WIDTH / _BINS
    thick = [high - low > 1e-4 for low, high in zip(floor, top, strict=True)]
    return [
        (index * unit, floor[index], top[index])
        for index in range(_BINS)
        if thick[index] or (index and thick[index - 1]) or (index + 1 < _BINS and thick[index + 1])
    ]


def runs(points: Sequence[tuple[float, float, float]]) -> list[list[tuple[float, float, float]]]:
    """Points of an area in stretches without a break, to be filled one by one."""
    unit = WIDTH / _BINS
    stretches: list[list[tuple[float, float, float]]] = []
    for point in points:
        if not stretches or point[0] - stretches[-1][-1][0] > unit * 1.5:
            stretches.append([])
        stretches[-1].append(point)
    return stretches
