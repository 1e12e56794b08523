"""What Prometheus sees of a real daemon."""

import asyncio
import hashlib
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from support.daemon import DaemonProcess
from support.needs import needs_program
from support.rank import key_of, rank
from support.scrape import page, samples, value

from inductord.compiler.reasons import Fallback
from inductord.compiler.remote_caches import CacheResult, RemoteCache
from inductord.daemon.metrics.job_gauges import SHOWN
from inductord.daemon.metrics.job_labels import MAX_LABELS, short
from inductord.daemon.rank_stats import PHASES
from inductord.daemon.tuning import TuningResult
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire

GRAPH = json.dumps([["size", 5000]]).encode()


def test_all_label_sets_exist_from_the_start(daemon: DaemonProcess) -> None:
    seen = samples(page(daemon))
    for result in ("hit", "joined", "led", "failed", "rejected", "cancelled"):
        assert value(seen, "inductord_compile_requests_total", result=result) == 0
    for reason in (*Fallback, "other"):
        assert value(seen, "inductord_fallback_total", reason=reason) == 0
    for outcome in ("compiled", "failed"):
        assert value(seen, "inductord_compile_duration_seconds_count", kind="backward", outcome=outcome) == 0
    for reason in ("compile_error", "timeout", "worker_died", "out_of_memory"):
        assert value(seen, "inductord_compile_failures_total", reason=reason) == 0
    for phase in PHASES:
        assert value(seen, "inductord_rank_phase_duration_seconds_count", phase=phase) == 0
    for phase in (*SHOWN, "all"):
        assert value(seen, "inductord_job_rank_seconds", job="other", phase=phase, stat="max") == 0
    for result in ("composed", "whole", "off", "other"):
        assert value(seen, "inductord_regions_total", result=result) == 0
    for result in CacheResult:
        for cache in (*RemoteCache, "other"):
            assert value(seen, "inductord_remote_cache_entries_total", cache=cache, result=result) == 0
    for tuned in TuningResult:
        assert value(seen, "inductord_kernel_tunings_total", result=tuned) == 0
    for service, method in (("Tuning", "Tune"), ("Cache", "GetBlob")):
        rpc = {"grpc_service": f"inductord.v1.{service}Service", "grpc_method": method}
        kind = "bidi_stream" if method == "Tune" else "unary"
        assert value(seen, "grpc_server_handled_total", grpc_type=kind, grpc_code="UNAVAILABLE", **rpc) == 0
    assert value(seen, "inductord_cache_failures_total") == 0
    assert value(seen, "inductord_pool_devices") == 0
    assert value(seen, "inductord_job_requests_total", job="other", result="hit") == 0
    assert value(seen, "inductord_pool_serving", pool="local") == 1
    assert value(seen, "inductord_pool_serving", pool="ray") == 0
    assert value(seen, "inductord_pool_degraded") == 0
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
                stats=pb.RankStats(
                    hits=2,
                    load_seconds=0.5,
                    fallbacks={"daemon_busy": 2, "made up": 1},
                    remote_caches={"regions hit": 3, "4f1d kept": 2, "4f1d made up": 1},
                ),
            )
        )
    seen = samples(page(daemon))
    results = {
        result: value(seen, "inductord_compile_requests_total", result=result) for result in ("led", "hit", "failed")
    }
    assert results == {"led": 1, "hit": 1, "failed": 1}
    assert value(seen, "inductord_compiles_total") == 2
    assert value(seen, "inductord_compile_duration_seconds_count", kind="forward", outcome="compiled") == 1
    assert value(seen, "inductord_compile_duration_seconds_count", kind="forward", outcome="failed") == 1
    assert value(seen, "inductord_compile_failures_total", reason="compile_error") == 1
    assert value(seen, "inductord_artifact_bytes_total", direction="in") == 5000
    assert value(seen, "inductord_artifact_bytes_total", direction="out") == 10_000
    assert value(seen, "inductord_store_entries") == 1
    assert value(seen, "inductord_store_bytes") == 5000
    assert value(seen, "inductord_fallback_total", reason="daemon_busy") == 2
    assert value(seen, "inductord_fallback_total", reason="other") == 1
    for cache, result, count in (("regions", "hit", 3), ("other", "kept", 2), ("other", "other", 1)):
        assert value(seen, "inductord_remote_cache_entries_total", cache=cache, result=result) == count
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


async def test_no_label_holds_what_a_client_chose_but_the_name_of_its_job(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        await one.compile(GRAPH, requester=pb.Requester(job="chosen-name", rank=77_777, pid=88_888))
        await one.stub.ReportRank(
            pb.ReportRankRequest(
                requester=pb.Requester(job="chosen-name", rank=77_777),
                stats=pb.RankStats(fallbacks={"chosen-reason": 1}, regions={"chosen-result": 1}, keys=["ab" * 32]),
            )
        )
    text = page(daemon)
    for chosen in ("chosen-reason", "chosen-result", "77777", "88888", key_of(GRAPH)[:16], "ab" * 8):
        assert chosen not in text
    named = {label for _, labels in samples(text) for label, content in labels if content == "chosen-name"}
    assert named == {"job"}


async def test_the_time_of_ranks_by_phase_and_how_it_spreads(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        for number, seconds in enumerate((1.0, 2.0, 6.0)):
            stats = pb.RankStats(
                hits=1, dynamo_seconds=2 * seconds, wait_seconds=seconds, serialize_seconds=0.5, recompiles=number
            )
            requester = pb.Requester(job="llama", rank=number, world_size=3, pid=10 + number)
            # Twice the same: what is cumulative counts once.
            for _ in range(2):
                await one.stub.ReportRank(pb.ReportRankRequest(requester=requester, stats=stats))
    seen = samples(page(daemon))

    def spread(phase: str) -> list[float]:
        return [
            value(seen, "inductord_job_rank_seconds", job="llama", phase=phase, stat=stat)
            for stat in ("min", "median", "max")
        ]

    assert spread("dynamo") == [2, 4, 12]
    assert spread("wait") == [1, 2, 6]
    assert spread("local") == [0, 0, 0]
    assert spread("all") == [3, 6, 18]  # ranks serialise while they wait
    assert value(seen, "inductord_rank_phase_duration_seconds_count", phase="dynamo") == 3
    assert value(seen, "inductord_rank_phase_duration_seconds_sum", phase="dynamo") == 18
    assert value(seen, "inductord_rank_phase_duration_seconds_count", phase="local") == 0
    assert value(seen, "inductord_recompiles_total") == value(seen, "inductord_job_recompiles_total", job="llama") == 3
    assert value(seen, "inductord_job_requests_total", job="llama", result="hit") == 3
    assert value(seen, "inductord_job_ranks", job="llama") == 3
    assert value(seen, "inductord_job_rank_seconds", job="other", phase="all", stat="max") == 0


async def test_ranks_that_wait_are_seen_by_job(daemon: DaemonProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    graph = json.dumps([["wait_for", str(go)], ["size", 10]]).encode()
    async with rank(daemon.address) as one:
        waiting = []
        for number in range(3):
            requester = pb.Requester(job="llama", rank=number, world_size=3, pid=number)
            waiting.append(await one.open(key_of(graph), requester=requester))
        await waiting[0].until("send_graph")
        await waiting[0].upload(graph)
        for stream in waiting:
            await stream.until_state(pb.COMPILE_STATE_COMPILING)
        seen = samples(page(daemon))
        assert value(seen, "inductord_job_waiting_ranks", job="llama") == 3
        assert value(seen, "inductord_waiting_requests") == 3
        go.touch()
        for stream in waiting:
            await stream.finish(graph)
    assert value(samples(page(daemon)), "inductord_job_waiting_ranks", job="llama") == 0


async def test_exemplars_say_which_key_and_job(daemon: DaemonProcess) -> None:
    job = "a-job-whose-name-is-longer-than-a-label-may-be-and-than-an-exemplar-takes"
    requester = pb.Requester(job=job, rank=1, world_size=2, pid=7)
    async with rank(daemon.address) as one:
        await one.compile(GRAPH, requester=requester)
        await one.fetch(key_of(GRAPH), requester=requester)
        await one.stub.ReportRank(pb.ReportRankRequest(requester=requester, stats=pb.RankStats(dynamo_seconds=3)))
    text = page(daemon, openmetrics=True)
    assert text.endswith("# EOF\n")
    found = {
        (sample.name, sample.labels.get("role", "")): sample.exemplar.labels
        for family in openmetrics.text_string_to_metric_families(text)
        for sample in family.samples
        if sample.exemplar
    }
    name = {"job": short(job)}
    known = {"key": key_of(GRAPH)[:16], **name}
    assert found == {
        ("inductord_compile_duration_seconds_bucket", ""): known,
        ("inductord_phase_duration_seconds_bucket", ""): known,
        ("inductord_wait_seconds_bucket", "leader"): known,
        ("inductord_wait_seconds_bucket", "hit"): known,
        ("inductord_rank_phase_duration_seconds_bucket", ""): name,
    }


def test_metrics_can_be_off(start_daemon: Callable[..., DaemonProcess]) -> None:
    assert start_daemon(metrics_address="").status().metrics_address == ""


def test_promtool_finds_nothing_to_say(daemon: DaemonProcess, tmp_path: Path) -> None:
    needs_program("promtool", "prometheus")
    checked = subprocess.run(["promtool", "check", "metrics"], input=page(daemon), text=True, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_a_scrape_stays_small_however_many_jobs_there_were(daemon: DaemonProcess) -> None:
    jobs, each, ranks = 1000, 10, 2
    numbers = random.Random(0)
    async with rank(daemon.address) as one:

        async def report(job: int, number: int) -> None:
            # The longest labels there are. Times differ, so that exemplars are in many buckets.
            name = hashlib.sha256(str(job).encode()).hexdigest()
            fields = {field: numbers.lognormvariate(0, 3) for field in PHASES.values()}
            keys = [hashlib.sha256(f"{job} {key}".encode()).hexdigest() for key in range(each)]
            stats = pb.RankStats(requests=each, hits=each, keys=keys, recompiles=1, fallbacks={"disabled": 1}, **fields)
            requester = pb.Requester(job=name, rank=number, world_size=ranks, pid=number + 1)
            await one.stub.ReportRank(pb.ReportRankRequest(requester=requester, stats=stats))

        # The first jobs have labels, and do something until the end.
        for job in (*range(jobs), *range(MAX_LABELS)):
            await asyncio.gather(*(report(job, number) for number in range(ranks)))
    text, with_exemplars = page(daemon), page(daemon, openmetrics=True)
    named = {dict(labels).get("job") for name, labels in samples(text) if name == "inductord_job_rank_seconds"}
    assert (len(named), "other" in named) == (MAX_LABELS + 1, True)
    assert with_exemplars.count(" # {") > 60
    assert max(len(text), len(with_exemplars)) < 200_000
