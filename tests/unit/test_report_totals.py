"""The report of ``inductord run``, from files as ranks write them and from the daemon's account."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from inductord.daemon.report.totals import RankFile, as_text, make_report, read_rank_files
from inductord.v1.admin_pb2 import JobSummary
from inductord.v1.compiler_pb2 import RankStats

pytestmark = pytest.mark.unit


def write_rank(folder: Path, rank: int, stats: RankStats, *, world_size: int = 2, pid: int = 100) -> None:
    """A file as a rank leaves it."""
    fields: dict[str, Any] = json.loads(json_format.MessageToJson(stats, preserving_proto_field_name=True))
    fields |= {"rank": rank, "world_size": world_size, "pid": pid, "job": "j"}
    (folder / f"rank-{rank}-{pid}.json").write_text(json.dumps(fields))


def stats(**fields: Any) -> RankStats:
    return RankStats(**fields)


def test_sums_over_ranks_and_distinct_graphs(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, stats(requests=3, led=2, joined=1, keys=["a", "b", "c"], saved_seconds=1.5))
    write_rank(tmp_path, 1, stats(requests=3, joined=3, keys=["a", "b", "c"], saved_seconds=4.5))
    ranks, damaged = read_rank_files(tmp_path)
    assert damaged == []
    report = make_report(
        "j", ranks, daemon=JobSummary(job="j", ranks=2, graphs=3, compiles=2, sum=RankStats(requests=6))
    )
    assert (report.ranks, report.world_size, report.graphs, report.requests) == (2, 2, 3, 6)
    assert (report.compiles, report.led, report.joined, report.hits) == (2, 2, 4, 0)
    assert report.saved_seconds == 6.0
    assert report.fallbacks == {}
    assert report.notes == ()


def test_a_job_that_was_interrupted_says_what_had_no_answer(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, stats(requests=6, led=2, joined=1, fallbacks={"worker_died": 1}), world_size=2)
    report = make_report("j", read_rank_files(tmp_path)[0], daemon=None)
    assert report.notes == (
        "The answers to 2 requests were not waited for: the job ended, or PyTorch's own cache on this machine had the graph "
        "by then.",
        "1 of 2 ranks reported; the others were ended by force or run elsewhere.",
    )


def test_a_restarted_rank_is_one_rank_with_all_its_work(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, stats(requests=3, led=3), world_size=1, pid=7)
    write_rank(tmp_path, 0, stats(requests=3, hits=3), world_size=1, pid=8)
    report = make_report("j", read_rank_files(tmp_path)[0], daemon=None)
    assert (report.ranks, report.requests, report.compiles, report.hits) == (1, 6, 3, 3)


def test_damaged_files_are_named_and_the_others_count(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, stats(requests=1), world_size=2)
    (tmp_path / "rank-1-5.json").write_text('{"requests": "3", ')
    (tmp_path / "rank-2-5.json").write_text("[]")
    (tmp_path / "rank-3-5.json").write_text('{"requests": "no number", "rank": 3, "world_size": 4}')
    ranks, damaged = read_rank_files(tmp_path)
    assert [rank.rank for rank in ranks] == [0]
    assert damaged == ["rank-1-5.json", "rank-2-5.json", "rank-3-5.json"]
    report = make_report("j", ranks, daemon=None, damaged=damaged)
    assert any("3 rank reports could not be read" in note for note in report.notes)


def test_fields_of_a_newer_release_are_no_damage(tmp_path: Path) -> None:
    (tmp_path / "rank-0-5.json").write_text(
        '{"requests": "3", "novelty": 1, "rank": 0, "world_size": 1, "pid": 5, "job": "j"}'
    )
    ranks, damaged = read_rank_files(tmp_path)
    assert (ranks[0].stats.requests, damaged) == (3, [])


def test_ranks_that_were_killed_are_known_from_the_daemon() -> None:
    heard = JobSummary(
        job="j", ranks=4, world_size=4, graphs=5, compiles=5, sum=RankStats(requests=20, joined=15, led=5)
    )
    report = make_report("j", [RankFile(0, 4, stats(requests=5, led=2, joined=3))], daemon=heard)
    assert (report.ranks, report.requests, report.joined, report.compiles) == (4, 20, 15, 5)
    assert any("the numbers are the daemon's" in note for note in report.notes)


def test_missing_ranks_are_said() -> None:
    report = make_report("j", [RankFile(0, 4, stats(requests=5))], daemon=None)
    assert any("1 of 4 ranks reported" in note for note in report.notes)


def test_a_daemon_that_was_restarted_does_not_make_compiles_vanish() -> None:
    heard = JobSummary(job="j", ranks=1, compiles=0)
    report = make_report("j", [RankFile(0, 1, stats(requests=2, led=2))], daemon=heard)
    assert report.compiles == 2
    assert any("restarted" in note for note in report.notes)


def test_nobody_reported() -> None:
    report = make_report("j", [], daemon=None)
    assert report.ranks == 0
    text = "\n".join(as_text(report))
    assert "nothing to report" in text
    assert "No rank reported" in text


def test_ranks_that_asked_for_nothing_are_no_riddle() -> None:
    report = make_report("j", [RankFile(0, 1, stats())], daemon=None)
    assert any("PyTorch's own cache" in note for note in report.notes)


def test_fallbacks_are_explained_most_frequent_first() -> None:
    rank = RankFile(0, 1, stats(requests=9, fallbacks={"worker_died": 1, "daemon_lost": 4, "of_tomorrow": 1}))
    report = make_report("j", [rank], daemon=None)
    assert list(report.fallbacks) == ["daemon_lost", "of_tomorrow", "worker_died"]
    lines = as_text(report)
    assert any("6 graphs compiled by the ranks themselves" in line for line in lines)
    assert any("4 × daemon_lost: the connection broke" in line for line in lines)
    assert report.as_json()["fallbacks_total"] == 6


def test_caches_say_what_became_of_their_entries() -> None:
    found = {"autograd-experimental hit": 2, "autograd-experimental miss": 1, "regions kept": 4, "4f1d": 1}
    ranks = [RankFile(rank, 2, stats(requests=1, hits=1, remote_caches=found)) for rank in range(2)]
    report = make_report("j", ranks, daemon=None)
    words = "autograd-experimental 4 hit, 2 miss; other 2; regions 8 kept; summed over the ranks"
    assert sorted(words.split("; ")) == sorted(_caches(as_text(report)).split("; "))
    assert report.as_json()["remote_caches"]["regions kept"] == 8


def _caches(lines: list[str]) -> str:
    (line,) = (line for line in lines if line.startswith("  caches"))
    return line.removeprefix("  caches").strip()


def test_the_report_fits_a_terminal() -> None:
    rank = RankFile(
        0, 8, stats(requests=99999, hits=33333, joined=33333, led=33333, saved_seconds=1e6, wait_seconds=1e5)
    )
    lines = as_text(make_report("0123456789ab", [rank] * 8, daemon=None))
    assert max(map(len, lines)) <= 100


def test_json_is_plain() -> None:
    report = make_report("j", [RankFile(0, 1, stats(requests=2, led=2))], daemon=None)
    assert json.loads(json.dumps(report.as_json()))["requests"] == 2
