"""What a rank counts, says and leaves behind."""

import dataclasses
import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inductord.compiler.reasons import Fallback
from inductord.compiler.regions.reasons import WholeReason
from inductord.compiler.settings import RankSettings
from inductord.compiler.telemetry import MAX_KEYS, MAX_KEYS_A_REPORT, Telemetry
from inductord.v1.compiler_pb2 import SERVED_HIT, SERVED_JOINED, SERVED_LED

pytestmark = pytest.mark.unit

SETTINGS = RankSettings(
    enabled=True,
    address="unix:/none",
    max_wait=1,
    job="llama",
    rank=0,
    world_size=4,
    report_dir=None,
    progress=False,
    regions="auto",
)


def test_it_counts_what_was_served_and_how() -> None:
    telemetry = Telemetry(SETTINGS)
    telemetry.requested("k2", 0.25)
    telemetry.requested("k1", 0.25)
    telemetry.requested("k1", 0.25)
    telemetry.sent(1000, 0.5)
    telemetry.served(SERVED_LED, 8.0, 0.1, 7.0, 300)
    telemetry.served(SERVED_JOINED, 4.0, 0.1, 7.0, 300)
    telemetry.served(SERVED_HIT, 0.0, 0.1, 7.0, 300)
    telemetry.compiled_here(3.0)
    stats = telemetry.snapshot()
    assert (stats.requests, stats.led, stats.joined, stats.hits) == (3, 1, 1, 1)
    assert list(stats.keys) == ["k1", "k2"]
    assert (stats.graph_bytes, stats.artifact_bytes) == (1000, 900)
    assert (stats.key_seconds, stats.serialize_seconds, stats.wait_seconds) == (0.75, 0.5, 12.0)
    assert (stats.local_compile_seconds, stats.saved_seconds) == (3.0, 14.0)
    assert stats.load_seconds == pytest.approx(0.3)


def test_a_snapshot_does_not_change() -> None:
    telemetry = Telemetry(SETTINGS)
    before = telemetry.snapshot()
    telemetry.requested("k", 0)
    assert (before.requests, list(before.keys)) == (0, [])


def test_it_says_who_asks() -> None:
    requester = Telemetry(dataclasses.replace(SETTINGS, rank=3)).requester()
    assert (requester.job, requester.rank, requester.world_size) == ("llama", 3, 4)
    assert requester.pid > 0


def test_no_count_is_lost_between_threads() -> None:
    telemetry = Telemetry(SETTINGS)

    def graphs(number: int) -> None:
        for _ in range(500):
            telemetry.requested(f"k{number}", 0)
            telemetry.fell_back(Fallback.DAEMON_ABSENT, "gone", f"graph {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(graphs, range(8)))
    stats = telemetry.snapshot()
    assert (stats.requests, stats.fallbacks["daemon_absent"], len(stats.keys)) == (4000, 4000, 8)


def test_keys_are_bounded_and_counts_are_not() -> None:
    telemetry = Telemetry(SETTINGS)
    for number in range(MAX_KEYS + 5):
        telemetry.requested(str(number), 0)
    stats = telemetry.snapshot()
    assert (len(stats.keys), stats.requests) == (MAX_KEYS, MAX_KEYS + 5)


def test_a_report_brings_the_keys_that_none_brought_before() -> None:
    telemetry = Telemetry(SETTINGS)
    keys = [f"{number:04}" for number in range(MAX_KEYS_A_REPORT + 2)]
    for key in [*keys, *keys]:
        telemetry.requested(key, 0)
    first = telemetry.report()
    assert list(first.keys) == keys[:MAX_KEYS_A_REPORT] == list(telemetry.report().keys)  # nobody took it yet
    telemetry.reported(first)
    second = telemetry.report()
    assert list(second.keys) == keys[MAX_KEYS_A_REPORT:]
    telemetry.reported(second)
    assert (list(telemetry.report().keys), telemetry.report().requests) == ([], 2 * len(keys))
    assert list(telemetry.snapshot().keys) == keys


def test_pytorchs_own_account_is_in_every_report() -> None:
    @dataclasses.dataclass
    class Account:
        dynamo_seconds: float = 2.0
        aot_seconds: float = 1.0
        recompiles: int = 3
        guard_failures: int = 5

    account = Account()
    telemetry = Telemetry(SETTINGS)
    telemetry.use_account(lambda: account)
    telemetry.launched(0.25)
    telemetry.launched(0.5)
    stats = telemetry.report()
    assert (stats.dynamo_seconds, stats.aot_seconds, stats.recompiles, stats.guard_failures) == (2.0, 1.0, 3, 5)
    assert (stats.first_launches, stats.first_launch_seconds) == (2, 0.75)
    account.dynamo_seconds = 4.0
    assert telemetry.snapshot().dynamo_seconds == 4.0


def test_each_reason_is_said_once_per_graph_and_counted_always(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(SETTINGS)
    with caplog.at_level(logging.INFO, "inductord"):
        for _ in range(3):
            telemetry.fell_back(Fallback.DAEMON_ABSENT, "nobody answers", "forward graph of 9 nodes")
            telemetry.fell_back(Fallback.DAEMON_ABSENT, "nobody answers", "backward graph of 20 nodes")
            telemetry.fell_back(Fallback.DAEMON_BUSY, "the queue is full", "forward graph of 9 nodes")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"inductord: {graph} is compiled by this rank: {message}")
        for graph, message in (
            ("forward graph of 9 nodes", "nobody answers (daemon_absent)"),
            ("backward graph of 20 nodes", "nobody answers (daemon_absent)"),
            ("forward graph of 9 nodes", "the queue is full (daemon_busy)"),
        )
    ]
    assert dict(telemetry.snapshot().fallbacks) == {"daemon_absent": 6, "daemon_busy": 3}


@pytest.mark.parametrize("reason", [Fallback.COMPILE_FAILED, Fallback.DISABLED])
def test_what_pytorch_or_the_user_said_is_not_said_again(reason: Fallback, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "inductord"):
        Telemetry(SETTINGS).fell_back(reason, "why", "forward graph")
    assert [record.levelno for record in caplog.records] == [logging.INFO]


def test_one_rank_says_it_aloud(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "inductord"):
        Telemetry(dataclasses.replace(SETTINGS, rank=1)).fell_back(Fallback.DAEMON_ABSENT, "gone", "forward graph")
    assert [record.levelno for record in caplog.records] == [logging.INFO]


_RANK = """
import os, sys
from inductord.compiler.reasons import Fallback
from inductord.compiler.settings import from_environment
from inductord.compiler.telemetry import Telemetry
telemetry = Telemetry(from_environment())
telemetry.write_at_exit()
telemetry.requested("ab", 0.5)
telemetry.fell_back(Fallback.DAEMON_ABSENT, "gone", "forward graph")
child = os.fork() if sys.argv[1:] == ["fork"] else None
if child:
    assert os.waitpid(child, 0)[1] == 0
print(os.getpid())
"""


def run_rank(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    env = {"INDUCTORD_REPORT_DIR": str(folder), "INDUCTORD_JOB": "llama", "RANK": "3", "WORLD_SIZE": "4"}
    return subprocess.run(
        [sys.executable, "-c", _RANK, *args], env=env, capture_output=True, text=True, timeout=60, check=True
    )


def test_graphs_in_pieces_and_whole_ones_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(SETTINGS)
    telemetry.composed(25, 4)
    telemetry.composed(7, 4)
    telemetry.not_cut(None, "")
    with caplog.at_level(logging.INFO, "inductord"):
        for _ in range(2):
            telemetry.not_cut(WholeReason.NO_REPEATS, "no two pieces are equal")
            telemetry.not_cut(WholeReason.ERROR, "KeyError: 'x'")
    stats = telemetry.snapshot()
    assert dict(stats.regions) == {"composed": 2, "off": 1, "whole": 4}
    assert dict(stats.whole_graphs) == {"no_repeats": 2, "error": 2}
    assert (stats.region_pieces, stats.region_distinct) == (32, 8)
    # Once a reason; what nobody expected is a warning.
    assert [(record.levelname, "(error)" in record.message) for record in caplog.records] == [
        ("INFO", False),
        ("WARNING", True),
    ]


def test_the_counts_are_left_in_a_file_at_exit(tmp_path: Path) -> None:
    pid = int(run_rank(tmp_path).stdout)
    assert [path.name for path in tmp_path.iterdir()] == [f"rank-3-{pid}.json"]
    report = json.loads((tmp_path / f"rank-3-{pid}.json").read_text())
    assert report == {
        "requests": "1",
        "key_seconds": 0.5,
        "fallbacks": {"daemon_absent": "1"},
        "keys": ["ab"],
        "rank": 3,
        "world_size": 4,
        "pid": pid,
        "job": "llama",
    }


def test_a_forked_data_loader_leaves_no_file(tmp_path: Path) -> None:
    child, rank = map(int, run_rank(tmp_path, "fork").stdout.split())
    assert child != rank
    assert [path.name for path in tmp_path.iterdir()] == [f"rank-3-{rank}.json"]


def test_a_folder_that_cannot_be_written_ends_no_job(tmp_path: Path) -> None:
    ended = run_rank(tmp_path / "absent")
    assert f"could not be written to {tmp_path / 'absent'}" in ended.stderr
    assert "Traceback" not in ended.stderr
