"""Ranks by the hundred: lanes that show what part of a group of ranks does what, in place of each rank by itself. Pure.

A page with a rectangle for each stage of a thousand ranks is too large to load and too dense to read. What matters at that
size is whether ranks wait together, and which of them are late.
"""

from collections.abc import Sequence

from inductord.daemon.cli import words
from inductord.daemon.report import bins
from inductord.daemon.report.facts import Facts, RankFacts
from inductord.daemon.report.marks import RANK_KINDS, Area, Lane, kind_of_stage
from inductord.daemon.report.scale import Scale
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.compiler_pb2 import STAGE_KIND_SERIALIZE, RankSpan
from inductord.v1.timeline_pb2 import RankTimeline

MOST_RANKS = 64
MOST_SPANS = 6000
"""More than these, and ranks are drawn in groups."""

_GROUPS = 32


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
    covered = {kind: bins.empty() for kind in RANK_KINDS}
    for rank in ranks:
        for span in rank.spans:
            _cover(covered, span, scale)
    frames, others = covered.pop("trace"), list(covered.values())
    # A frame lasts over its graphs; what they do is taken off it.
    covered = {
        "trace": [max(frame - sum(parts), 0.0) for frame, *parts in zip(frames, *others, strict=True)],
        **covered,
    }
    floor = bins.empty()
    areas = []
    for kind, shares in covered.items():
        top = [min(low + share / len(ranks), 1.0) for low, share in zip(floor, shares, strict=True)]
        if any(share > 0 for share in shares):
            areas.append(bins.area(kind, floor, top))
        floor = top
    return areas


def _cover(covered: dict[str, list[float]], span: RankSpan, scale: Scale) -> None:
    for stage in span.stages:
        if stage.kind != STAGE_KIND_SERIALIZE:  # It lies within the wait, or in other work.
            start = span.start_unix + stage.offset_seconds
            bins.cover(covered[kind_of_stage(span, stage.kind)], scale, start, start + stage.seconds)
