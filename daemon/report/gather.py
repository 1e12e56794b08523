"""A whole report, from the two who know of a job: the daemon, and the ranks by the files that they left."""

import dataclasses
from collections.abc import Iterable, Sequence

from inductord.daemon.report.totals import RankFile, RunReport, from_daemon, make_report
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.timeline_pb2 import RankTimeline


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Sums and times of one job."""

    totals: RunReport
    timeline: Timeline


def of_daemon(timeline: Timeline) -> Report:
    """What the daemon knows, while the job runs or after it."""
    return Report(from_daemon(timeline.job), timeline)


def of_run(
    job: str,
    ranks: Sequence[RankFile],
    *,
    daemon: Timeline | None,
    notes: Iterable[str] = (),
    damaged: Sequence[str] = (),
) -> Report:
    """At the end of a job on this node. A rank's own file has what it did after its last report to the daemon as well; ranks
    without a file are known from the daemon."""
    totals = make_report(job, ranks, daemon=daemon.job if daemon else None, notes=notes, damaged=damaged)
    timeline = Timeline()
    if daemon is not None:
        timeline.CopyFrom(daemon)
    known = {(rank.rank, rank.pid): rank for rank in timeline.ranks}
    for file in ranks:
        told = known.get((file.rank, file.pid))
        if told is None or len(file.trace.spans) >= len(told.spans):
            known[file.rank, file.pid] = _of_file(file)
    del timeline.ranks[:]
    timeline.ranks.extend(known[who] for who in sorted(known) if known[who].spans)
    if not timeline.taken_unix:
        timeline.taken_unix = max(
            (span.start_unix for rank in timeline.ranks for span in rank.spans), default=timeline.taken_unix
        )
    return Report(totals, timeline)


def _of_file(file: RankFile) -> RankTimeline:
    trace = file.trace
    rank = RankTimeline(
        rank=file.rank,
        pid=file.pid,
        host=trace.host,
        clock_ahead_seconds=trace.clock_ahead_seconds,
        dropped=trace.first,
        spans=trace.spans,
    )
    for span in rank.spans:
        span.start_unix += trace.clock_ahead_seconds
    return rank
