"""Who waited for whom, where the time went, and where on the page that is."""

import pytest
from support.timelines import NOW, a_job, a_span, key

from inductord.daemon.report.facts import find
from inductord.daemon.report.gather import of_daemon, of_run
from inductord.daemon.report.scale import WIDTH, Scale
from inductord.daemon.report.text import as_text
from inductord.daemon.report.totals import RankFile, from_daemon
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import JobSummary, Timeline
from inductord.v1.timeline_pb2 import COMPILE_OUTCOME_FAILED, CompileRecord, RankTimeline

pytestmark = pytest.mark.unit


def test_who_waited_for_whom() -> None:
    facts = find(a_job(ranks=4, graphs=3))
    assert [(graph.led, graph.joined, graph.hits) for graph in facts.graphs] == [(1, 3, 0)] * 3
    second = facts.graphs[1]
    assert second.compile is not None
    assert (second.key, second.nodes, second.compile.rank) == (key("graph 1"), 101, 1)
    assert second.waiting == pytest.approx(dict.fromkeys(range(4), 8.3))
    assert facts.slowest(2) == list(facts.graphs[:2])
    assert (facts.start, facts.end) == (NOW, pytest.approx(NOW + 20 + 9.9, abs=1e-5))


def test_where_the_time_of_a_rank_went_adds_up() -> None:
    facts = find(a_job(ranks=4, graphs=2))
    leader = facts.ranks[0]
    assert (leader.led, leader.joined) == (1, 1)
    assert (leader.key, leader.serialize) == pytest.approx((0.2, 0.1))
    assert leader.wait == pytest.approx(2 * 8.3 - 0.1)
    assert leader.load == pytest.approx(0.8)
    assert leader.trace == pytest.approx(2 * (9.9 - 8.8))
    assert leader.seconds == pytest.approx(2 * 9.9)


def test_graphs_that_are_asked_for_ahead_of_time_count_once() -> None:
    frame = pb.RankSpan(start_unix=NOW, stages=[pb.Stage(kind=pb.STAGE_KIND_TRACE, seconds=10)])
    ahead = [
        a_span(f"g{number}", 2, [(pb.STAGE_KIND_SERIALIZE, 0.0, 1.0), (pb.STAGE_KIND_WAIT, 1.0 + number, 1.0)])
        for number in range(3)
    ]
    facts = find(Timeline(taken_unix=NOW, ranks=[RankTimeline(spans=[frame, *ahead])])).ranks[0]
    assert (facts.trace, facts.serialize, facts.wait) == pytest.approx((10 - 4, 3, 3))


def test_hits_and_retries() -> None:
    timeline = Timeline(taken_unix=NOW + 60)
    stages = [(pb.STAGE_KIND_WAIT, 0.0, 0.2), (pb.STAGE_KIND_LOAD, 0.2, 0.3)]
    hit = a_span("old", 0, stages, served=pb.SERVED_HIT)
    own = a_span("bad", 1, [(pb.STAGE_KIND_LOCAL_COMPILE, 0.0, 3.0)], fallback="worker_died")
    timeline.ranks.append(RankTimeline(rank=0, pid=1, spans=[hit, own]))
    for attempt in (1, 2):
        timeline.compiles.append(
            CompileRecord(
                key=bytes.fromhex(key("bad")),
                attempt=attempt,
                queued_unix=NOW + attempt,
                started_unix=NOW + attempt,
                ended_unix=NOW + attempt + 0.5,
                outcome=COMPILE_OUTCOME_FAILED,
            )
        )
    facts = find(timeline)
    bad, old = facts.graphs
    assert (old.hits, old.waiting, old.compile) == (1, {}, None)
    assert (bad.attempts, bad.fallbacks) == (2, {"worker_died": 1})
    assert (facts.ranks[0].local, facts.ranks[0].fallbacks) == (3.0, 1)


def test_an_empty_job_has_no_length() -> None:
    facts = find(Timeline(taken_unix=NOW))
    assert (facts.start, facts.end, list(facts.graphs), list(facts.ranks)) == (NOW, NOW, [], [])


# The scale


def test_the_scale_covers_the_page_in_order() -> None:
    scale = Scale([(0.0, 10.0), (12.0, 20.0)])
    assert (scale.x(0), scale.x(10), scale.x(20)) == (0, WIDTH / 2, WIDTH)
    assert (scale.x(-5), scale.x(25)) == (0, WIDTH)
    assert [tick.seconds for tick in scale.ticks()] == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]


def test_long_quiet_times_are_drawn_short() -> None:
    scale = Scale([(0.0, 60.0), (3600.0, 3640.0), (3650.0, 3660.0)])
    quiet = [piece for piece in scale.pieces if piece.quiet]
    assert [(piece.start, piece.end) for piece in quiet] == [(60.0, 3600.0)]
    assert scale.x(60) == pytest.approx(quiet[0].x)
    assert WIDTH * 0.4 < quiet[0].x < WIDTH * 0.6, "both busy stretches took a minute"
    assert all(tick.seconds <= 60 or tick.seconds >= 3600 for tick in scale.ticks())


def test_only_so_many_quiet_times_are_cut() -> None:
    scale = Scale([(1000.0 * number, 1000.0 * number + 10) for number in range(40)])
    assert sum(piece.quiet for piece in scale.pieces) <= 12
    assert scale.pieces[-1].x_end == pytest.approx(WIDTH)


def test_a_moment_is_a_scale_too() -> None:
    assert Scale([(5.0, 5.0)]).x(5.0) == 0
    assert Scale([]).pieces


# Gathering


def test_the_file_of_a_rank_has_more_than_the_daemon_heard() -> None:
    daemon = a_job(ranks=2, graphs=1)
    later = a_span("last", 20, [(pb.STAGE_KIND_KEY, 0, 1)])
    del daemon.ranks[0].spans[1:]
    trace = pb.RankTrace(spans=[*daemon.ranks[0].spans, later], clock_ahead_seconds=100, first=3, host="elsewhere")
    file = RankFile(0, 2, pb.RankStats(requests=1, led=1, keys=[key("graph 0")]), 100, trace)
    report = of_run("llama", [file], daemon=daemon)
    first, second = report.timeline.ranks
    assert [span.start_unix - NOW for span in first.spans] == [101, 120]
    assert (first.dropped, first.host) == (3, "elsewhere")
    assert len(second.spans) == 2, "without a file the daemon's word counts"
    assert len(report.timeline.compiles) == 1


def test_a_run_without_a_daemon_has_the_ranks_times() -> None:
    spans = [a_span("g", 2, [(pb.STAGE_KIND_LOCAL_COMPILE, 0, 4)], fallback="daemon_absent")]
    file = RankFile(0, 1, pb.RankStats(fallbacks={"daemon_absent": 1}), 7, pb.RankTrace(spans=spans))
    report = of_run("j", [file], daemon=None)
    assert report.totals.fallbacks == {"daemon_absent": 1}
    assert report.timeline.taken_unix == NOW + 2
    assert find(report.timeline).end == NOW + 6


def test_a_job_that_runs_says_what_is_missing() -> None:
    assert "No rank has reported yet" in from_daemon(JobSummary(job="j", ranks=2, world_size=2, graphs=1)).notes[0]
    cached = JobSummary(job="j", ranks=2, world_size=2, sum=pb.RankStats(regions={"composed": 2}))
    assert "PyTorch's own cache" in from_daemon(cached).notes[0]
    partly = from_daemon(JobSummary(job="j", ranks=2, world_size=4, sum=pb.RankStats(requests=2)))
    assert partly.notes == ("2 of 4 ranks came to this daemon.",)


def test_the_text_fits_a_terminal_and_names_the_slow() -> None:
    job = a_job(ranks=12, graphs=10)
    job.ranks[0].dropped = 4
    lines = as_text(of_daemon(job))
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 100
    assert text.count("8.0 s  ") == 8
    assert "12 ranks for backward graph of 101 nodes" in text
    assert "of rank 1" in text
    assert "and 6 more" in text
    assert "4 older spans were not kept" in text
