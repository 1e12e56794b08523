"""What each rank and each worker did, as marks on the page's scale. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from inductord.daemon.cli import words
from inductord.daemon.cli.protojson import enum_name
from inductord.daemon.report import bins
from inductord.daemon.report.facts import Facts, RankFacts, compile_time, end_of, end_of_span, is_frame
from inductord.daemon.report.marks import LEGEND, Item, Lane, Mark, kind_of_phase, kind_of_stage
from inductord.daemon.report.scale import Scale
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.compiler_pb2 import STAGE_KIND_SERIALIZE, FailureKind, GraphKind, RankSpan
from inductord.v1.timeline_pb2 import COMPILE_OUTCOME_ABANDONED, COMPILE_OUTCOME_FAILED, CompileRecord, RankTimeline

_THIN = 4.0
"""Units below which a mark could not be seen: it is drawn that wide."""

_MOST_WORKERS = 32
_WORTH_SHOWING_S = 0.05


def describe(kind: int, nodes: int, key: str) -> str:
    """A graph in a few words."""
    name = enum_name(GraphKind.DESCRIPTOR, kind)
    return f"{name if kind else ''} graph of {nodes} nodes{f', {words.short_key(key)}' if key else ''}".strip()


def rank_lanes(timeline: Timeline, facts: Facts, scale: Scale) -> list[Lane]:
    """A lane for each rank's process, in the order of ranks."""
    several = len({rank.host for rank in timeline.ranks}) > 1
    pairs = zip(timeline.ranks, facts.ranks, strict=True)
    return [_rank_lane(rank, of_rank, facts, scale, several) for rank, of_rank in pairs]


def _rank_lane(rank: RankTimeline, of_rank: RankFacts, facts: Facts, scale: Scale, several_hosts: bool) -> Lane:
    spans = sorted(rank.spans, key=lambda span: (not is_frame(span), span.start_unix))
    return Lane(
        label=f"rank {rank.rank}",
        note=rank.host if several_hosts else "",
        summary=f"Rank {rank.rank}: {in_words(of_rank)}.",
        items=[_span_item(span, facts, scale) for span in spans if span.stages],
    )


def in_words(rank: RankFacts) -> str:
    """Where a rank's time went, in words."""
    said = (
        f"traced {words.duration(rank.trace)}, waited {words.duration(rank.wait)}, loaded {words.duration(rank.load)}"
    )
    if rank.local:
        said += f", compiled {words.duration(rank.local)} itself"
    return f"{said}; {rank.led} led, {rank.joined} joined, {rank.hits} found stored"


def _span_item(span: RankSpan, facts: Facts, scale: Scale) -> Item:
    number = facts.numbers.get(span.key)
    lines = [f"frame {span.compile_id}" if is_frame(span) else describe(span.kind, span.nodes, span.key.hex())]
    marks = []
    for stage in sorted(span.stages, key=lambda stage: (stage.kind == STAGE_KIND_SERIALIZE, stage.offset_seconds)):
        start = span.start_unix + stage.offset_seconds
        kind = kind_of_stage(span, stage.kind)
        x, width = _stretch(scale, start, start + stage.seconds)
        marks.append(Mark(kind, x, width, "lower" if stage.kind == STAGE_KIND_SERIALIZE else "whole"))
        lines.append(f"{LEGEND[kind]}: {words.duration(stage.seconds)}")
    if span.fallback:
        lines.append(f"compiled by the rank: {span.fallback}")
    end = scale.x(end_of_span(span)) if number is not None else None
    return Item(marks, "\n".join(lines), number, end)


def queue_lane(timeline: Timeline, scale: Scale) -> list[Lane]:
    """A lane for the compiles that wait for a worker, as high as there are many; none when none had to wait."""
    now = timeline.taken_unix
    waits = [(record.queued_unix, record.started_unix or end_of(record, now)) for record in timeline.compiles]
    waits = [(start, end) for start, end in waits if end - start > _WORTH_SHOWING_S]
    if not waits:
        return []
    counts = bins.empty()
    for start, end in waits:
        bins.cover(counts, scale, start, end)
    most = max(counts)
    total = words.duration(sum(end - start for start, end in waits))
    summary = f"Queue: {words.count(len(waits), 'compile')} waited for a worker, {total} in sum."
    return [Lane("queue", "", summary, areas=[bins.area("queued", bins.empty(), [count / most for count in counts])])]


def worker_lanes(timeline: Timeline, facts: Facts, scale: Scale) -> list[Lane]:
    """Lanes of compiles: one for each worker, or, when these are many, as few as hold them side by side."""
    by_worker: dict[str, list[CompileRecord]] = defaultdict(list)
    for record in sorted(timeline.compiles, key=lambda record: record.started_unix or record.queued_unix):
        by_worker[record.worker].append(record)
    rows: list[tuple[str, list[CompileRecord]]] = []
    if len(by_worker) > _MOST_WORKERS:
        packed = _packed(timeline.compiles, timeline.taken_unix)
        rows = [(f"compiles {number}", records) for number, records in enumerate(packed[:_MOST_WORKERS], 1)]
    else:
        for name, records in by_worker.items():
            rows += [(name, records)] if name else [("no worker", row) for row in _packed(records, timeline.taken_unix)]
    return [_worker_lane(name, records, timeline.taken_unix, facts, scale) for name, records in rows]


def _packed(records: Iterable[CompileRecord], now: float) -> list[list[CompileRecord]]:
    """Rows in which none overlaps another."""
    rows: list[list[CompileRecord]] = []
    for record in sorted(records, key=lambda record: record.started_unix or record.queued_unix):
        begin = record.started_unix or record.queued_unix
        free = next((row for row in rows if end_of(row[-1], now) <= begin), None)
        if free is None:
            rows.append([record])
        else:
            free.append(record)
    return rows


def _worker_lane(name: str, records: Sequence[CompileRecord], now: float, facts: Facts, scale: Scale) -> Lane:
    busy = sum(compile_time(record) for record in records)
    return Lane(
        label=name,
        note="",
        summary=f"{name}: {words.count(len(records), 'compile')}, {words.duration(busy)}.",
        items=[_compile_item(record, now, facts, scale) for record in records],
    )


def _compile_item(record: CompileRecord, now: float, facts: Facts, scale: Scale) -> Item:
    end = end_of(record, now)
    started = record.started_unix or end
    lines = [describe(record.kind, record.nodes, record.key.hex()), f"asked for by rank {record.rank}"]
    marks = []
    if started > record.queued_unix:
        lines.append(f"waited for a worker: {words.duration(started - record.queued_unix)}")
    if record.started_unix:
        marks += _body(record, end, scale)
        lines.append(f"{LEGEND['compile']}: {words.duration(end - started)}")
        lines += [f"· {phase.name}: {words.duration(phase.seconds)}" for phase in record.phases]
    if record.attempt > 1:
        lines.append(f"attempt {record.attempt}")
    if record.outcome == COMPILE_OUTCOME_FAILED:
        lines.append(f"failed, {enum_name(FailureKind.DESCRIPTOR, record.failure)}: {record.message}")
    if record.outcome == COMPILE_OUTCOME_ABANDONED:
        lines.append("abandoned: nobody waited for it any more")
    return Item(marks, "\n".join(lines), facts.numbers.get(record.key), scale.x(end))


def _body(record: CompileRecord, end: float, scale: Scale) -> list[Mark]:
    kind = {COMPILE_OUTCOME_FAILED: "failed", COMPILE_OUTCOME_ABANDONED: "abandoned"}.get(record.outcome, "compile")
    x, width = _stretch(scale, record.started_unix, end)
    marks = [Mark(kind, x, width)]
    if kind == "compile":
        # The worker measured these itself; its reply came at the end.
        begin = max(end - sum(phase.seconds for phase in record.phases), record.started_unix)
        for phase in record.phases:
            stop = min(begin + phase.seconds, end)
            if kind_of_phase(phase.name) != "compile":
                marks.append(Mark(kind_of_phase(phase.name), *_stretch(scale, begin, stop)))
            begin = stop
    return marks


def _stretch(scale: Scale, start: float, end: float) -> tuple[float, float]:
    x = scale.x(start)
    return x, max(scale.x(end) - x, _THIN)
