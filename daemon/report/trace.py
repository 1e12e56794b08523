"""A job as events in Chrome's trace format, which Perfetto and ``chrome://tracing`` show. Pure.

Each rank is a process, the queue of the daemon is one, and each worker is one; arrows lead from the end of a compile to the
ranks that waited for it. The format is the "Trace Event Format" of Chromium: phases X (a span), M (a name), s and f (begin and
end of an arrow); times in microseconds.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from inductord.daemon.cli.protojson import enum_name
from inductord.daemon.report.facts import Facts, end_of, end_of_span, find, is_frame
from inductord.daemon.report.lanes import describe
from inductord.daemon.report.marks import LEGEND, kind_of_stage
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.compiler_pb2 import SERVED_JOINED, SERVED_LED, RankSpan, Served, StageKind
from inductord.v1.timeline_pb2 import CompileOutcome, CompileRecord, RankTimeline

_DAEMON = 1
_FIRST_RANK = 1000
_FIRST_WORKER = 1_000_000


def events(timeline: Timeline) -> dict[str, Any]:
    """The whole as one JSON object. Times are relative to the first event, which ``otherData`` names."""
    facts = find(timeline)
    return {
        "traceEvents": list(_events(timeline, facts)),
        "displayTimeUnit": "ms",
        "otherData": {"job": timeline.job.job, "start_unix": facts.start},
    }


def _events(timeline: Timeline, facts: Facts) -> Iterator[dict[str, Any]]:
    yield from _named(_DAEMON, "daemon: queue", 0)
    workers = {name: _FIRST_WORKER + index for index, name in enumerate(_workers(timeline))}
    for name, pid in workers.items():
        yield from _named(pid, name or "no worker yet", 100_000 + pid)
    ends: dict[bytes, tuple[int, float]] = {}
    for index, record in enumerate(timeline.compiles):
        pid = workers[record.worker]
        yield from _compile(record, index, pid, timeline.taken_unix, facts)
        ends[record.key] = (pid, end_of(record, timeline.taken_unix))
    arrows = itertools.count(1)
    for index, rank in enumerate(timeline.ranks):
        pid = _FIRST_RANK + index
        yield from _named(pid, f"rank {rank.rank} (pid {rank.pid})", 10 + rank.rank)
        for tid, span in _threads(rank):
            yield from _of_rank(span, pid, tid, facts)
            if span.served in (SERVED_LED, SERVED_JOINED) and span.key in ends:
                yield from _arrow(next(arrows), ends[span.key], (pid, tid), end_of_span(span), facts)


def _workers(timeline: Timeline) -> list[str]:
    return list(dict.fromkeys(record.worker for record in timeline.compiles))


def _named(pid: int, name: str, order: int) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": order}}


def _compile(record: CompileRecord, index: int, worker: int, now: float, facts: Facts) -> Iterator[dict[str, Any]]:
    name = describe(record.kind, record.nodes, record.key.hex())
    end = end_of(record, now)
    about = {
        "key": record.key.hex(),
        "rank": record.rank,
        "attempt": record.attempt,
        "outcome": enum_name(CompileOutcome.DESCRIPTOR, record.outcome),
        "message": record.message,
    }
    # Many wait at once: each has a line of its own.
    yield _span(_DAEMON, index, f"queued: {name}", record.queued_unix, record.started_unix or end, facts, about)
    if not record.started_unix:
        return
    yield _span(worker, 1, name, record.started_unix, end, facts, about)
    begin = max(end - sum(phase.seconds for phase in record.phases), record.started_unix)
    for phase in record.phases:
        stop = min(begin + phase.seconds, end)
        yield _span(worker, 1, phase.name, begin, stop, facts, {})
        begin = stop


def _threads(rank: RankTimeline) -> Iterator[tuple[int, RankSpan]]:
    """Spans with the line that each is drawn on: frames on the first; graphs that are on their way side by side, because they
    were asked for ahead of time, on one each."""
    busy_until: list[float] = []
    for span in sorted(rank.spans, key=lambda span: span.start_unix):
        if is_frame(span):
            yield 1, span
            continue
        free = next((line for line, end in enumerate(busy_until) if end <= span.start_unix), len(busy_until))
        busy_until[free : free + 1] = [end_of_span(span)]
        yield 2 + free, span


def _of_rank(span: RankSpan, pid: int, tid: int, facts: Facts) -> Iterator[dict[str, Any]]:
    if not is_frame(span):
        about = {
            "key": span.key.hex(),
            "served": enum_name(Served.DESCRIPTOR, span.served),
            "fallback": span.fallback,
        }
        name = describe(span.kind, span.nodes, span.key.hex())
        yield _span(pid, tid, name, span.start_unix, end_of_span(span), facts, about)
    for stage in span.stages:
        start = span.start_unix + stage.offset_seconds
        about = {"stage": enum_name(StageKind.DESCRIPTOR, stage.kind), "compile_id": span.compile_id}
        yield _span(pid, tid, LEGEND[kind_of_stage(span, stage.kind)], start, start + stage.seconds, facts, about)


def _span(
    pid: int, tid: int, name: str, start: float, end: float, facts: Facts, about: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "inductord",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": _micros(start, facts),
        "dur": max(round((end - start) * 1e6), 1),
        "args": about,
    }


def _arrow(
    number: int, source: tuple[int, float], target: tuple[int, int], end: float, facts: Facts
) -> Iterator[dict[str, Any]]:
    worker, compiled = source
    common = {"cat": "inductord", "name": "artifact", "id": number}
    # An arrow hangs on the spans that enclose its ends, so these lie just inside.
    yield {"ph": "s", "pid": worker, "tid": 1, "ts": _micros(compiled, facts) - 1, **common}
    yield {"ph": "f", "bp": "e", "pid": target[0], "tid": target[1], "ts": _micros(end, facts) - 1, **common}


def _micros(time: float, facts: Facts) -> int:
    return round((time - facts.start) * 1e6)
