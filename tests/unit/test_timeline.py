"""When things happened: what a rank records, what the daemon keeps of it, and what it sees itself."""

import pytest
from prometheus_client import CollectorRegistry
from support.timelines import NOW, a_span, an_order, key

from inductord.compiler import timeline as rank_side
from inductord.daemon import accounts, jobs, orders
from inductord.daemon import timeline as daemon_side
from inductord.daemon.accounts import Accounts
from inductord.daemon.errors import InvalidRequest
from inductord.daemon.jobs import JobTable
from inductord.daemon.metrics.families import Metrics
from inductord.daemon.timeline import JobTimeline
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.timeline_pb2 import (
    COMPILE_OUTCOME_ABANDONED,
    COMPILE_OUTCOME_COMPILED,
    COMPILE_OUTCOME_COMPILING,
    COMPILE_OUTCOME_FAILED,
)
from inductord.worker.pool import Compiled, failed

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def whole(timeline: JobTimeline) -> Timeline:
    merged = Timeline()
    for part in timeline.parts():
        merged.MergeFrom(part)
    return merged


def a_trace(first: int, count: int, **fields: object) -> pb.RankTrace:
    spans = [a_span(f"g{number}", number, [(pb.STAGE_KIND_KEY, 0, 1)]) for number in range(first, first + count)]
    return pb.RankTrace(first=first, spans=spans, host="node", **fields)  # type: ignore[arg-type]


# The rank


def fail_while_waiting(recorder: rank_side.SpanRecorder) -> rank_side.Stopwatch:
    try:
        with recorder.stage(pb.STAGE_KIND_WAIT):
            with recorder.stage(pb.STAGE_KIND_SERIALIZE) as inner:
                assert inner.seconds == 0
            raise RuntimeError("lost")
    except RuntimeError:
        return inner


def test_stages_lie_inside_one_another_and_count_when_they_raise() -> None:
    timeline = rank_side.Timeline()
    with timeline.graph(pb.GRAPH_KIND_BACKWARD, 9) as recorder:
        recorder.identified(key("a"))
        inner = fail_while_waiting(recorder)
        recorder.fell_back("daemon_lost")
    (span,) = timeline.trace().spans
    serialize, wait = span.stages
    assert (serialize.kind, wait.kind) == (pb.STAGE_KIND_SERIALIZE, pb.STAGE_KIND_WAIT)
    assert wait.offset_seconds <= serialize.offset_seconds
    assert wait.seconds >= serialize.seconds == pytest.approx(inner.seconds)
    assert (span.kind, span.nodes, span.key.hex(), span.fallback) == (
        pb.GRAPH_KIND_BACKWARD,
        9,
        key("a"),
        "daemon_lost",
    )


def test_a_graph_whose_compile_raises_has_its_span_all_the_same() -> None:
    timeline = rank_side.Timeline()
    with pytest.raises(ValueError, match="broken"), timeline.graph(pb.GRAPH_KIND_FORWARD, 1):
        raise ValueError("broken")
    assert len(timeline.trace().spans) == 1


def test_only_what_was_not_taken_is_sent_again() -> None:
    timeline = rank_side.Timeline()
    for number in range(3):
        timeline.traced(pb.STAGE_KIND_TRACE, f"{number}/0", NOW, 1.0)
    assert len(timeline.trace().spans) == 3
    assert len(timeline.trace().spans) == 3, "nobody took them yet"
    timeline.answered(2, NOW, NOW, NOW)
    trace = timeline.trace()
    assert (trace.first, [span.compile_id for span in trace.spans]) == (2, ["2/0"])
    assert len(timeline.trace(whole=True).spans) == 3
    timeline.answered(99, NOW, NOW, NOW)
    timeline.traced(pb.STAGE_KIND_TRACE, "3/0", NOW, 1.0)
    assert [span.compile_id for span in timeline.trace().spans] == ["3/0"], "a daemon cannot take what was not sent"


def test_a_rank_keeps_its_newest_spans_and_says_where_they_begin() -> None:
    timeline = rank_side.Timeline()
    for number in range(rank_side.MAX_SPANS + 5):
        timeline.traced(pb.STAGE_KIND_TRACE, str(number), NOW, 1.0)
    trace = timeline.trace()
    assert (trace.first, trace.spans[0].compile_id) == (5, "5")
    assert len(trace.spans) == rank_side.MAX_SPANS_A_REPORT <= orders.MAX_SPANS
    assert len(timeline.trace(whole=True).spans) == rank_side.MAX_SPANS


@pytest.mark.parametrize(
    ("exchanges", "ahead"),
    [
        ([(10.0, 110.5, 11.0)], 100.0),
        ([(10.0, 10.7, 11.0)], 0.0),  # the way there and back explains it
        ([(10.0, 180.0, 20.0), (30.0, 130.01, 30.02), (40.0, 145.0, 50.0)], 100.0),  # the quickest knows best
        ([(10.0, 0.0, 11.0)], None),  # a daemon that does not tell its time
    ],
)
def test_the_clocks_of_rank_and_daemon_are_compared(
    exchanges: list[tuple[float, float, float]], ahead: float | None
) -> None:
    timeline = rank_side.Timeline()
    for sent, daemon, received in exchanges:
        timeline.answered(0, daemon, sent, received)
    trace = timeline.trace()
    assert (trace.clock_ahead_seconds if trace.HasField("clock_ahead_seconds") else None) == (
        ahead if ahead is None else pytest.approx(ahead)
    )


# The daemon


def test_a_compile_is_followed_from_queue_to_end() -> None:
    clock = Clock()
    timeline = JobTimeline(clock)
    order = an_order("a", rank=3)
    timeline.queued(order, 1)
    clock.now += 2
    timeline.started(order.key)
    assert whole(timeline).compiles[0].outcome == COMPILE_OUTCOME_COMPILING
    clock.now += 5
    timeline.ended(order.key, failed(pb.FAILURE_KIND_WORKER_DIED, "it died", retryable=True))
    timeline.queued(order, 2)
    timeline.started(order.key)
    clock.now += 4
    phases = {"new": 0.5, "pack": 0.1, "compile": 3, "load": 0.4}
    timeline.ended(order.key, Compiled(b"", 4.0, phases, worker="worker 8"))
    first, second = whole(timeline).compiles
    assert (first.outcome, first.failure, first.message) == (
        COMPILE_OUTCOME_FAILED,
        pb.FAILURE_KIND_WORKER_DIED,
        "it died",
    )
    assert (first.queued_unix, first.started_unix, first.ended_unix) == (NOW, NOW + 2, NOW + 7)
    assert (second.outcome, second.attempt, second.worker, second.rank) == (COMPILE_OUTCOME_COMPILED, 2, "worker 8", 3)
    assert [phase.name for phase in second.phases] == ["load", "compile", "pack", "new"]


def test_a_compile_that_nobody_waited_for_is_abandoned() -> None:
    timeline = JobTimeline(Clock())
    order = an_order("a")
    timeline.queued(order, 1)
    timeline.abandoned(order.key)
    timeline.ended(order.key, Compiled(b"", 1.0))
    (record,) = whole(timeline).compiles
    assert (record.outcome, record.started_unix, record.ended_unix) == (COMPILE_OUTCOME_ABANDONED, 0, NOW)


def test_spans_sent_twice_are_one_and_gaps_are_counted() -> None:
    timeline = JobTimeline(Clock())
    assert timeline.traced(0, 1, a_trace(0, 3)) == 3
    assert timeline.traced(0, 1, a_trace(1, 4)) == 5
    assert timeline.traced(0, 1, a_trace(0, 2)) == 5, "reports may overtake each other"
    assert timeline.traced(0, 1, a_trace(7, 1)) == 8
    (rank,) = whole(timeline).ranks
    assert [span.start_unix - NOW for span in rank.spans] == [0, 1, 2, 3, 4, 7]
    assert rank.dropped == 2


def test_times_of_a_rank_with_another_clock_are_told_by_the_daemons() -> None:
    timeline = JobTimeline(Clock())
    timeline.traced(0, 1, a_trace(0, 1))
    timeline.traced(0, 1, a_trace(1, 1, clock_ahead_seconds=-60.0))
    (rank,) = whole(timeline).ranks
    assert [span.start_unix - NOW for span in rank.spans] == [-60, -59]
    assert rank.clock_ahead_seconds == -60


def test_a_timeline_is_bounded_and_says_what_it_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_side, "MAX_SPANS_A_RANK", 10)
    monkeypatch.setattr(daemon_side, "MAX_SPANS", 15)
    monkeypatch.setattr(daemon_side, "MAX_RANKS", 2)
    timeline = JobTimeline(Clock())
    timeline.traced(0, 1, a_trace(0, 12))
    timeline.traced(1, 1, a_trace(0, 9))
    assert timeline.traced(2, 1, a_trace(0, 4)) == 4, "there is no room for this rank, and no use in sending again"
    first, second = whole(timeline).ranks
    assert ([len(first.spans), first.dropped], [len(second.spans), second.dropped]) == ([10, 2], [5, 4])
    assert second.spans[-1].start_unix == NOW + 8
    assert timeline.spans == 15
    for number in range(daemon_side.MAX_COMPILES + 3):
        timeline.queued(an_order(str(number)), 1)
    merged = whole(timeline)
    assert (len(merged.compiles), merged.compiles_dropped) == (daemon_side.MAX_COMPILES, 3)


def test_many_ranks_come_in_parts_that_fit_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_side, "_SPANS_A_PART", 4)
    timeline = JobTimeline(Clock())
    for rank in range(5):
        timeline.traced(rank, 1, a_trace(0, 2))
    assert [len(part.ranks) for part in timeline.parts()] == [0, 2, 2, 1]


def test_old_jobs_give_their_spans_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_SPANS", 10)
    table = JobTable(Clock(), Clock())
    for job in ("old", "newer", "newest"):
        table.traced(pb.Requester(job=job), a_trace(0, 5))
    kept = {}
    for job in ("old", "newer", "newest"):
        parts = table.timeline(job)
        assert parts is not None
        kept[job] = [(len(rank.spans), rank.dropped) for part in parts for rank in part.ranks]
    assert kept == {"old": [(0, 5)], "newer": [(5, 0)], "newest": [(5, 0)]}


def test_a_job_alone_keeps_within_a_share_that_became_smaller() -> None:
    share = 100
    table = JobTable(Clock(), Clock(), lambda: share)
    for rank in range(2):
        table.traced(pb.Requester(job="j", rank=rank), a_trace(0, 40))
    share = 20
    table.traced(pb.Requester(job="j", rank=0), a_trace(40, 1))
    parts = table.timeline("j")
    assert parts is not None
    kept = [(len(rank.spans), rank.dropped, rank.spans[-1].start_unix - NOW) for part in parts for rank in part.ranks]
    assert kept == [(10, 31, 40), (10, 30, 39)]


def test_each_tenant_has_a_share_of_what_may_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MAX_SPANS", 12)
    everybody = Accounts(Metrics(CollectorRegistry()), Clock())
    kept = []
    for tenant in ("a", "b"):
        table = everybody.of(tenant).jobs
        table.traced(pb.Requester(job="j"), a_trace(0, 10))
        parts = table.timeline("j")
        assert parts is not None
        kept += [len(rank.spans) for part in parts for rank in part.ranks]
    assert kept == [6, 4], "the owner has a share too"


def test_without_a_name_it_is_the_job_seen_last() -> None:
    table = JobTable(Clock(), Clock())
    assert table.timeline("") is None
    table.queued(an_order(job="first"), 1)
    table.queued(an_order(job="second"), 1)
    parts = table.timeline("")
    assert parts is not None
    assert next(parts).job.job == "second"
    assert table.timeline("third") is None


def bad(**fields: object) -> pb.RankTrace:
    return pb.RankTrace(spans=[pb.RankSpan(start_unix=NOW, **fields)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "trace",
    [
        pb.RankTrace(spans=[pb.RankSpan()] * (orders.MAX_SPANS + 1)),
        pb.RankTrace(host="h" * 1000),
        pb.RankTrace(clock_ahead_seconds=float("nan")),
        pb.RankTrace(spans=[pb.RankSpan(start_unix=float("inf"))]),
        bad(key=b"short"),
        bad(fallback="x" * 2000),
        bad(stages=[pb.Stage(seconds=float("nan"))]),
        bad(stages=[pb.Stage(seconds=-1)]),
        bad(stages=[pb.Stage(offset_seconds=float("inf"))]),
    ],
    ids=["many", "host", "clock", "start", "key", "large", "nan", "negative", "offset"],
)
def test_traces_that_make_no_sense_are_refused(trace: pb.RankTrace) -> None:
    with pytest.raises(InvalidRequest):
        orders.check_trace(trace)
