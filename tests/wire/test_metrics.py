"""What Prometheus sees of a real daemon."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.needs import needs_program
from support.rank import key_of, rank
from support.scrape import page, samples, value

from inductord.compiler.reasons import Fallback
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire

GRAPH = json.dumps([["size", 5000]]).encode()


def test_all_label_sets_exist_from_the_start(daemon: DaemonProcess) -> None:
    seen = samples(page(daemon))
    for result in ("hit", "joined", "led", "failed", "rejected", "cancelled"):
        assert value(seen, "inductord_compile_requests_total", result=result) == 0
    for reason in (*Fallback, "other"):
        assert value(seen, "inductord_fallback_total", reason=reason) == 0
    for outcome in ("compiled", "compile_error", "timeout", "worker_died", "out_of_memory"):
        assert value(seen, "inductord_compile_duration_seconds_count", kind="backward", outcome=outcome) == 0
    assert value(seen, "inductord_compiles_total") == 0
    assert value(seen, "inductord_store_max_bytes") > 0


async def test_counters_say_what_happened(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        await one.compile(GRAPH)
        await one.fetch(key_of(GRAPH))
        await one.compile(json.dumps([["fail", "no"]]).encode())
        await one.stub.ReportRank(
            pb.ReportRankRequest(
                requester=pb.Requester(job="j", rank=3),
                stats=pb.RankStats(hits=2, load_seconds=0.5, fallbacks={"daemon_busy": 2, "made up": 1}),
            )
        )
    seen = samples(page(daemon))
    results = {
        result: value(seen, "inductord_compile_requests_total", result=result) for result in ("led", "hit", "failed")
    }
    assert results == {"led": 1, "hit": 1, "failed": 1}
    assert value(seen, "inductord_compiles_total") == 2
    assert value(seen, "inductord_compile_duration_seconds_count", kind="forward", outcome="compiled") == 1
    assert value(seen, "inductord_compile_duration_seconds_count", kind="forward", outcome="compile_error") == 1
    assert value(seen, "inductord_artifact_bytes_total", direction="in") == 5000
    assert value(seen, "inductord_artifact_bytes_total", direction="out") == 10_000
    assert value(seen, "inductord_store_entries") == 1
    assert value(seen, "inductord_store_bytes") == 5000
    assert value(seen, "inductord_fallback_total", reason="daemon_busy") == 2
    assert value(seen, "inductord_fallback_total", reason="other") == 1
    assert value(seen, "inductord_load_duration_seconds_count") == 2
    assert value(seen, "inductord_load_duration_seconds_sum") == 0.5
    compile_rpc = {
        "grpc_type": "bidi_stream",
        "grpc_service": "inductord.v1.CompilerService",
        "grpc_method": "Compile",
    }
    assert value(seen, "grpc_server_started_total", **compile_rpc) == 3
    assert value(seen, "grpc_server_handled_total", grpc_code="OK", **compile_rpc) == 3
    assert value(seen, "grpc_server_handling_seconds_count", **compile_rpc) == 3


async def test_no_label_holds_what_a_client_chose(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        await one.compile(GRAPH, requester=pb.Requester(job="chosen-name", rank=77_777, pid=88_888))
        await one.stub.ReportRank(
            pb.ReportRankRequest(
                requester=pb.Requester(job="chosen-name", rank=77_777),
                stats=pb.RankStats(fallbacks={"chosen-reason": 1}, keys=["ab" * 32]),
            )
        )
    text = page(daemon)
    for chosen in ("chosen-name", "chosen-reason", "77777", "88888", key_of(GRAPH), "ab" * 32):
        assert chosen not in text


def test_metrics_can_be_off(start_daemon: Callable[..., DaemonProcess]) -> None:
    assert start_daemon(metrics_address="").status().metrics_address == ""


def test_promtool_finds_nothing_to_say(daemon: DaemonProcess, tmp_path: Path) -> None:
    needs_program("promtool", "prometheus")
    checked = subprocess.run(["promtool", "check", "metrics"], input=page(daemon), text=True, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
