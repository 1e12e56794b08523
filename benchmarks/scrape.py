"""What a scrape costs a daemon that has served many jobs: seconds and bytes, with and without exemplars.

    python benchmarks/scrape.py [--json] [--jobs 1000] [--ranks 8] [--keys 10000] [--scrapes 50]

A real daemon serves a store of that many keys, and every rank of every job reports to it.
"""

import argparse
import asyncio
import hashlib
import random
import statistics
import time
import urllib.request
from pathlib import Path

import grpc
import psutil
from _common import clean_environment, machine, serving, show, temporary_folder

from inductord.daemon.metrics.job_labels import MAX_LABELS
from inductord.daemon.store import Meta, Store
from inductord.v1 import admin_pb2, compiler_pb2
from inductord.v1.admin_pb2_grpc import AdminServiceStub
from inductord.v1.compiler_pb2 import GRAPH_KIND_FORWARD, RankStats, ReportRankRequest, Requester
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

_FORMATS = {"text": "text/plain", "openmetrics": "application/openmetrics-text; version=1.0.0"}


def key(number: int) -> str:
    """One of the keys."""
    return hashlib.sha256(str(number).encode()).hexdigest()


async def fill(folder: Path, keys: int) -> None:
    """Put that many entries into the store."""
    store = await Store.open(folder, max_bytes=1 << 40, memory_bytes=1 << 20)
    meta = Meta(GRAPH_KIND_FORWARD, 1.0, compiler_pb2.Toolchain(), {}, 1, "benchmark")
    for number in range(keys):
        await store.publish(key(number), number.to_bytes(8), meta)
    await store.close()


def report(stub: CompilerServiceStub, jobs: int, ranks: int, keys: int) -> None:
    """Have every rank of every job report, and those of the first jobs, which have labels, once more. Times differ, so that
    exemplars are in many buckets."""
    numbers = random.Random(0)
    each = max(1, keys // jobs)
    for job in (*range(jobs), *range(MAX_LABELS)):
        # As `inductord run` names jobs.
        name = hashlib.sha256(str(job).encode()).hexdigest()[:12]
        for rank in range(ranks):
            stats = RankStats(
                requests=each,
                hits=each,
                dynamo_seconds=numbers.lognormvariate(1, 2),
                aot_seconds=numbers.lognormvariate(1, 2),
                wait_seconds=numbers.lognormvariate(1, 2),
                load_seconds=numbers.lognormvariate(-1, 2),
                key_seconds=numbers.lognormvariate(-1, 2),
                serialize_seconds=numbers.lognormvariate(-1, 2),
                first_launch_seconds=numbers.lognormvariate(-1, 2),
                local_compile_seconds=numbers.lognormvariate(2, 2),
                keys=[key(job * each + number) for number in range(each)],
            )
            requester = Requester(job=name, rank=rank, world_size=ranks, pid=rank + 1)
            stub.ReportRank(ReportRankRequest(requester=requester, stats=stats))


def scrape(url: str, accept: str, times: int, process: psutil.Process) -> dict[str, float]:
    """Time of a scrape as its client sees it, CPU time that it costs the daemon, and its size."""
    seconds, size = [], 0
    before = process.cpu_times()
    for _ in range(times):
        start = time.perf_counter()
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=60) as answer:
            size = len(answer.read())
        seconds.append(time.perf_counter() - start)
    after = process.cpu_times()
    return {
        "ms": round(statistics.median(seconds) * 1000, 1),
        "worst_ms": round(max(seconds) * 1000, 1),
        "cpu_ms": round((after.user + after.system - before.user - before.system) / times * 1000, 1),
        "kb": round(size / 1000, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=8, help="of each job")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--scrapes", type=int, default=50, help="how many are timed, in each format")
    args = parser.parse_args()
    with temporary_folder() as folder:
        asyncio.run(fill(folder / "store", args.keys))
        flags = ["--scratch", str(folder / "scratch"), "--metrics-address", "127.0.0.1:0"]
        with (
            serving(folder, clean_environment(folder), flags) as daemon,
            grpc.insecure_channel(daemon.address) as channel,
        ):
            report(CompilerServiceStub(channel), args.jobs, args.ranks, args.keys)
            status = AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest()).status
            url, process = f"http://{status.metrics_address}/metrics", psutil.Process(daemon.pid)
            found = {name: scrape(url, accept, args.scrapes, process) for name, accept in _FORMATS.items()}
    result = {
        "benchmark": "scrape",
        "machine": machine(),
        "jobs": args.jobs,
        "jobs_with_a_label": MAX_LABELS,
        "ranks": args.ranks,
        "store_entries": status.store.entries,
        **found,
    }
    rows = [
        (f"scrape, {name}", "{ms:g} ms, worst {worst_ms:g} ms, {cpu_ms:g} ms of CPU, {kb:g} kB".format(**each))
        for name, each in found.items()
    ]
    show(result, rows, as_json=args.json)


if __name__ == "__main__":
    main()
