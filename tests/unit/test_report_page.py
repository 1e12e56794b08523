"""The page and the trace: whole, self-contained, escaped, and of a size that opens, however large the job."""

import html.parser
import json
import re
from collections import Counter

import pytest
from support.timelines import NOW, a_job, a_span, key

from inductord.compiler.reasons import Fallback
from inductord.daemon.cli.fallback_words import phrase
from inductord.daemon.report import crowd, page, trace
from inductord.daemon.report.facts import find
from inductord.daemon.report.gather import Report, of_daemon
from inductord.daemon.report.lanes import queue_lane, rank_lanes, worker_lanes
from inductord.daemon.report.scale import WIDTH, Scale
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import JobSummary, Timeline
from inductord.v1.timeline_pb2 import COMPILE_OUTCOME_ABANDONED, COMPILE_OUTCOME_FAILED, CompileRecord, RankTimeline

pytestmark = pytest.mark.unit

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><svg onload=alert(1)>",
    "{{ 7 * 7 }} {% for %}",
    "' onmouseover='alert(1)",
    "]]> --> \u202e \x00 ümläut 名前",
]


class Seen(html.parser.HTMLParser):
    """Elements with their attributes, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def seen(content: str) -> Seen:
    parser = Seen()
    parser.feed(content)
    return parser


def hostile_job(words: str) -> Report:
    timeline = a_job(ranks=2, graphs=1, name=words)
    timeline.compiles[0].worker = words
    timeline.compiles.append(
        CompileRecord(
            key=bytes.fromhex(key("other")),
            queued_unix=NOW,
            started_unix=NOW + 1,
            ended_unix=NOW + 2,
            outcome=COMPILE_OUTCOME_FAILED,
            message=words,
        )
    )
    timeline.ranks[0].host = words
    timeline.ranks[1].spans[0].fallback = words
    timeline.ranks[1].spans[1].compile_id = words
    timeline.job.sum.fallbacks[words] = 2
    timeline.job.sum.whole_graphs[words] = 2
    return of_daemon(timeline)


@pytest.mark.parametrize("words", HOSTILE, ids=range(len(HOSTILE)))
def test_words_from_outside_stay_words(words: str) -> None:
    content = page.render(hostile_job(words))
    found, plain = seen(content), seen(page.render(hostile_job("plain")))
    assert found.tags == plain.tags
    assert {name for name, _ in found.attributes} == {name for name, _ in plain.attributes}
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert words.replace("\x00", "\ufffd") in "".join(found.text).replace("\x00", "\ufffd")
    json.dumps(trace.events(hostile_job(words).timeline))


def test_the_page_needs_nothing_but_itself() -> None:
    content = page.render(of_daemon(a_job()))
    found = seen(content)
    assert not {"link", "img", "iframe", "object", "base", "form"} & found.tags.keys()
    assert not [value for name, value in found.attributes if name in ("src", "href", "srcset", "action")]
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", content)
    assert "default-src 'none'" in content


def test_the_page_says_what_happened() -> None:
    text = " ".join("".join(seen(page.render(of_daemon(a_job(ranks=4, graphs=3)))).text).split())
    for fact in (
        "4 ranks asked 12 times for 3 distinct graphs; 3 compiles of the pool served them.",
        "rank 0",
        "rank 3",
        "worker 900",
        "forward graph of 100 nodes",
        "rank 1 (8.3 s)",
        "waiting for a compile that another rank asked for first",
    ):
        assert fact in text, fact


def test_every_lane_can_be_read_aloud() -> None:
    content = page.render(of_daemon(a_job(ranks=4, graphs=3)))
    labels = re.findall(r'<svg class="lane"[^>]*aria-label="([^"]+)"', content)
    assert len(labels) == 7, "four ranks, the queue, two workers"
    assert labels[1].startswith("Rank 1: traced")


@pytest.mark.parametrize("reason", [*Fallback, "of_tomorrow"])
def test_each_fallback_is_explained(reason: str) -> None:
    timeline = Timeline(job=JobSummary(job="j", ranks=1, sum=pb.RankStats(fallbacks={reason: 3})), taken_unix=NOW)
    text = "".join(seen(page.render(of_daemon(timeline))).text)
    assert reason in text
    assert phrase(reason) in text


def test_what_became_of_graphs_and_of_entries_of_caches_is_said_once() -> None:
    sums = pb.RankStats(
        regions={"composed": 2, "whole": 1, "off": 1}, whole_graphs={"alias": 1}, region_pieces=18, region_distinct=8
    )
    sums.remote_caches["regions hit"] = 3
    timeline = Timeline(job=JobSummary(job="j", ranks=2, sum=sums), taken_unix=NOW)
    words = "2 graphs cut into 18 pieces, 8 distinct; 1 graph compiled whole (1 × alias)"
    assert "".join(seen(page.render(of_daemon(timeline))).text).count(words) == 1
    del timeline.job.sum.whole_graphs["alias"], timeline.job.sum.regions["composed"]
    assert "Regions:" not in page.render(of_daemon(timeline))
    assert "Caches of results: regions 3 hit; summed over the ranks." in page.render(of_daemon(timeline))
    timeline.job.sum.remote_caches.clear()
    assert "Caches of results:" not in page.render(of_daemon(timeline))


def test_a_job_in_which_nothing_happened_has_a_page() -> None:
    content = page.render(of_daemon(Timeline(job=JobSummary(job="idle"), taken_unix=NOW)))
    assert "No rank asked for a graph." in content
    assert "Nothing was recorded" in content


def test_marks_are_where_and_as_long_as_things_happened() -> None:
    timeline = a_job(ranks=2, graphs=2)
    facts = find(timeline)
    scale = Scale(facts.busy)
    lane = rank_lanes(timeline, facts, scale)[0]
    frames, graphs = lane.items[:2], lane.items[2:]
    assert [mark.kind for item in frames for mark in item.marks] == ["trace", "trace"]
    assert [[mark.kind for mark in item.marks] for item in graphs] == [
        ["key", "led", "load", "serialize"],
        ["key", "joined", "load"],
    ]
    wait = graphs[1].marks[1]
    per_second = WIDTH / (facts.end - facts.start)
    assert (wait.x, wait.width) == pytest.approx((11.1 * per_second, 8.3 * per_second), abs=1)
    assert graphs[1].end == pytest.approx(19.8 * per_second, abs=1)
    assert "waiting for a compile that another rank asked for first: 8.3 s" in graphs[1].title


def test_compiles_that_went_wrong_show_it() -> None:
    timeline = a_job(ranks=1, graphs=3)
    timeline.compiles[0].outcome = COMPILE_OUTCOME_FAILED
    timeline.compiles[0].message = "no such operator"
    timeline.compiles[1].outcome = COMPILE_OUTCOME_ABANDONED
    timeline.compiles[1].attempt = 2
    timeline.compiles[2].ended_unix = 0
    timeline.compiles[2].worker = ""
    facts = find(timeline)
    items = [item for lane in worker_lanes(timeline, facts, Scale(facts.busy)) for item in lane.items]
    kinds = {mark.kind for item in items for mark in item.marks}
    assert {"failed", "abandoned"} <= kinds
    titles = "\n".join(item.title for item in items)
    assert "failed, unspecified: no such operator" in titles
    assert "attempt 2" in titles


def test_the_queue_is_as_high_as_compiles_wait_in_it() -> None:
    timeline = a_job(ranks=1, graphs=3)
    for record, waited in zip(timeline.compiles, (8.0, 4.0, 0.0), strict=True):
        record.queued_unix = NOW
        record.started_unix = NOW + waited
    scale = Scale([(NOW, NOW + 10)])
    (lane,) = queue_lane(timeline, scale)
    assert lane.summary == "Queue: 2 compiles waited for a worker, 12.0 s in sum."
    heights = {round(x / WIDTH * 10, 2): high for x, _, high in lane.areas[0].points}
    assert (heights[2.0], heights[6.0]) == (1.0, 0.5)
    assert max(heights) == pytest.approx(8.0, abs=0.05)
    for record in timeline.compiles:
        record.started_unix = NOW
    assert queue_lane(timeline, scale) == []


def test_many_workers_share_lanes() -> None:
    timeline = a_job(ranks=1, graphs=50)
    for number, record in enumerate(timeline.compiles):
        record.worker = f"worker {number}"
    facts = find(timeline)
    lanes = worker_lanes(timeline, facts, Scale(facts.busy))
    assert [lane.label for lane in lanes] == ["compiles 1"], "none ran beside another"
    assert len(lanes[0].items) == 50


def test_shares_of_a_group_add_up_to_its_ranks() -> None:
    timeline = a_job(ranks=80, graphs=1)
    assert crowd.is_crowd(timeline)
    facts = find(timeline)
    lanes = crowd.group_lanes(timeline, facts, Scale(facts.busy))
    assert len(lanes) == 27
    areas = {area.kind: area for area in lanes[1].areas}
    middle = [point for point in areas["joined"].points if WIDTH * 0.4 < point[0] < WIDTH * 0.6]
    assert middle
    assert all((low, high) == pytest.approx((0, 1)) for _, low, high in middle), "all of them wait"
    assert all(0 <= low <= high <= 1 for area in lanes[0].areas for _, low, high in area.points)
    assert [area.kind for area in lanes[0].areas] == ["trace", "key", "led", "joined", "load"]


@pytest.mark.parametrize(("ranks", "graphs"), [(64, 45), (1000, 100)])
def test_large_jobs_have_pages_that_open(ranks: int, graphs: int) -> None:
    content = page.render(of_daemon(a_job(ranks, graphs)))
    assert len(content.encode()) < 5_000_000
    assert content.count('<svg class="lane"') <= ranks + 3
    assert f"{ranks}" in content


def test_a_trace_has_a_process_for_each_part_and_arrows_to_those_who_waited() -> None:
    timeline = a_job(ranks=3, graphs=2)
    made = trace.events(timeline)
    events = made["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert list(names) == [
        "daemon: queue",
        "worker 900",
        "worker 901",
        "rank 0 (pid 100)",
        "rank 1 (pid 101)",
        "rank 2 (pid 102)",
    ]
    assert len(set(names.values())) == len(names)
    arrows = [event for event in events if event["ph"] in "sf"]
    assert Counter(event["ph"] for event in arrows) == {"s": 6, "f": 6}
    assert {event["pid"] for event in arrows if event["ph"] == "s"} == {names["worker 900"], names["worker 901"]}
    spans = [event for event in events if event["ph"] == "X"]
    assert min(event["ts"] for event in spans) == 0
    assert all(event["dur"] > 0 for event in spans)
    (compiling,) = [event for event in spans if event["pid"] == names["worker 900"] and "key" in event["args"]]
    assert (compiling["ts"], compiling["dur"]) == (1_300_000, 8_000_000)
    assert compiling["args"]["key"] == key("graph 0")


def test_each_arrow_ends_within_spans_of_both_sides() -> None:
    events = trace.events(a_job(ranks=3, graphs=2))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    for arrow in (event for event in events if event["ph"] in "sf"):
        assert any(
            span["pid"] == arrow["pid"] and span["ts"] <= arrow["ts"] <= span["ts"] + span["dur"] for span in spans
        ), arrow


def test_ranks_of_several_hosts_are_told_apart() -> None:
    timeline = a_job(ranks=1, graphs=1)
    other = RankTimeline(rank=1, pid=5, host="node-b", spans=[a_span("g", 1, [(pb.STAGE_KIND_KEY, 0, 1)])])
    timeline.ranks.append(other)
    assert "<small>node-b</small>" in page.render(of_daemon(timeline))


def test_graphs_side_by_side_are_on_lines_of_their_own() -> None:
    timeline = Timeline(taken_unix=NOW)
    spans = [a_span(f"g{number}", start, [(pb.STAGE_KIND_WAIT, 0, 2)]) for number, start in enumerate((0, 1, 3))]
    timeline.ranks.append(RankTimeline(spans=[pb.RankSpan(stages=[pb.Stage(kind=pb.STAGE_KIND_TRACE)]), *spans]))
    graphs = [
        event for event in trace.events(timeline)["traceEvents"] if event["ph"] == "X" and "served" in event["args"]
    ]
    assert [event["tid"] for event in graphs] == [2, 3, 2]
