"""The main job: several ranks under torchrun, each distinct graph compiled once, with the numbers of plain Inductor."""

import json
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.daemon import DaemonProcess
from support.training import NO_GRAPH_CACHE, Ended, torchrun, train

from inductord.daemon.client import AdminClient
from inductord.daemon.report.facts import end_of_span, find, is_frame
from inductord.v1.admin_pb2 import Totals
from inductord.v1.compiler_pb2 import SERVED_LED, STAGE_KIND_KEY, STAGE_KIND_LOAD, STAGE_KIND_WAIT
from inductord.v1.timeline_pb2 import COMPILE_OUTCOME_COMPILED

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

RANKS = 4
STEPS = 20
WIDTH = "32"


def job(folder: Path, address: str | None, **variables: str) -> tuple[Ended, list[list[str]]]:
    """Run the job and return it with the losses of each rank."""
    out = folder / "losses"
    # As ranks of users do, these try which vector units there are.
    command = torchrun(RANKS, "ddp.py", "--width", WIDTH, "--out", str(out))
    ended = train(folder, command, address, TORCHINDUCTOR_VEC_ISA_OK=None, **variables)
    assert ended.code == 0, ended.err
    losses = [json.loads((out / f"{rank}.json").read_text()) for rank in range(RANKS)]
    assert all(len(each) == STEPS for each in losses)
    return ended, losses


def scrape(daemon: DaemonProcess) -> dict[str, float]:
    """Counters of the daemon's metrics page, by name and labels."""
    with urllib.request.urlopen(f"http://{daemon.status().metrics_address}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        ",".join([sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def since(before: Totals, after: Totals) -> dict[str, int]:
    return {
        name: getattr(after, name) - getattr(before, name) for name in ("requests", "hits", "joined", "led", "compiles")
    }


def check_timeline(daemon: DaemonProcess, job: Ended, graphs: int) -> None:
    """What the daemon tells of the job's times is whole, and fits together over the processes."""
    with AdminClient(daemon.address) as admin:
        timeline = admin.timeline("many")
    assert len(timeline.compiles) == graphs
    assert {record.outcome for record in timeline.compiles} == {COMPILE_OUTCOME_COMPILED}
    assert {tuple(phase.name for phase in record.phases) for record in timeline.compiles} == {
        ("load", "key", "compile", "pack")
    }
    facts = find(timeline)
    assert len(facts.graphs) == graphs
    for name in ("led", "joined", "hits"):
        assert sum(getattr(graph, name) for graph in facts.graphs) == job.count(name)
    assert sorted(rank.rank for rank in facts.ranks) == list(range(RANKS))
    for rank in timeline.ranks:
        assert (rank.clock_ahead_seconds, rank.dropped) == (0, 0)
        frames = [(span.start_unix, end_of_span(span)) for span in rank.spans if is_frame(span)]
        on_their_way = [span for span in rank.spans if span.key]
        assert frames
        assert on_their_way
        for span in on_their_way:
            # The two are timed by different clocks of the same machine.
            inside = (span.start_unix + 0.01, end_of_span(span) - 0.01)
            assert any(start <= inside[0] and inside[1] <= end for start, end in frames), span
            assert {STAGE_KIND_KEY, STAGE_KIND_WAIT, STAGE_KIND_LOAD} <= {stage.kind for stage in span.stages}
    compiled = {record.key: record for record in timeline.compiles}
    for rank in timeline.ranks:
        for span in rank.spans:
            if span.served == SERVED_LED:
                assert span.start_unix <= compiled[span.key].queued_unix
                assert compiled[span.key].ended_unix <= end_of_span(span) + 0.01


def test_four_ranks_compile_each_graph_once(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    _, expected = job(tmp_path / "plain", None)

    before, page = real_daemon.status().totals, scrape(real_daemon)
    # With Inductor's own cache a rank that comes late may find what an early one left there, and ask nobody.
    first, losses = job(tmp_path / "first", real_daemon.address, INDUCTORD_JOB="many", **NO_GRAPH_CACHE)
    assert losses == expected
    graphs = len(first.keys)
    assert graphs >= 2  # forward and backward
    assert first.fallbacks == {}, first.err
    asked = since(before, real_daemon.status().totals)
    assert asked == {
        "requests": RANKS * graphs,
        "hits": first.count("hits"),
        "joined": first.count("joined"),
        "led": graphs,
        "compiles": graphs,
    }
    assert first.count("requests") == RANKS * graphs
    assert first.count("hits") + first.count("joined") == (RANKS - 1) * graphs
    assert len(first.reports) == RANKS

    # What Prometheus sees is the same.
    now = scrape(real_daemon)

    def counted(name: str) -> float:
        return now[name] - page[name]

    assert counted("inductord_compiles_total") == graphs
    for result in ("hit", "joined", "led"):
        name = "hits" if result == "hit" else result
        assert counted(f"inductord_compile_requests_total,result={result}") == asked[name]
    for result in ("failed", "rejected", "cancelled", "error"):
        assert counted(f"inductord_compile_requests_total,result={result}") == 0
    assert sum(value - page[name] for name, value in now.items() if name.startswith("inductord_fallback_total")) == 0
    summary = next(each for each in real_daemon.status().jobs if each.job == "many")
    assert (summary.ranks, summary.world_size, summary.graphs, summary.compiles) == (RANKS, RANKS, graphs, graphs)

    check_timeline(real_daemon, first, graphs)

    # A second job finds everything in the store, or where the first rank to ask left it.
    second, losses = job(tmp_path / "second", real_daemon.address)
    assert losses == expected
    assert (second.fallbacks, second.keys) == ({}, first.keys), second.err
    assert graphs <= second.count("requests") == second.count("hits") <= RANKS * graphs
    assert since(before, real_daemon.status().totals)["compiles"] == graphs
