"""Plays some jobs on a daemon, so that a preview has something to show: ranks that ask, wait, report, and one that lags.

    python dashboards/preview/scene.py [--minutes 6] [--ray]

Starts a daemon whose workers need no torch, and a Prometheus that scrapes it; prints the Prometheus's URL when all jobs have
been played, and keeps both until it is interrupted. What the ranks do is made up; daemon, metrics and rules are real, and, with
``--ray``, the Ray cluster on which the workers run.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from support.cluster import RayCluster, ray_daemon, until_connected
from support.daemon import running_daemon
from support.prometheus import running_prometheus
from support.rank import key_of, rank

from inductord.v1 import compiler_pb2 as pb

_NAMES = ("llama-7b", "qwen3-sft", "mixtral-moe", "vit-eval")
_KINDS = (pb.GRAPH_KIND_FORWARD, pb.GRAPH_KIND_BACKWARD, pb.GRAPH_KIND_INFERENCE)


async def one_rank(address: str, job: str, number: int, ranks: int, graphs: int, pace: float, seed: int) -> None:
    """One rank of a job; the last of each is slow in Dynamo."""
    numbers = random.Random(f"{job} {number}")
    slow = 3.0 if number == ranks - 1 else 1.0
    requester = pb.Requester(job=job, rank=number, world_size=ranks, pid=1000 * seed + number)
    stats = pb.RankStats()
    async with rank(address) as client:
        for graph in range(graphs):
            dynamo = numbers.uniform(0.3, 0.6) * slow * pace
            await asyncio.sleep(dynamo)
            seconds = random.Random(f"{job} {graph}").lognormvariate(0.6, 0.7) * pace
            steps = [["sleep", seconds], ["size", 150_000]]
            if graph % 17 == 11:
                steps = [["fail", f"{job}: an operator without a lowering"]]
            body = json.dumps(steps).encode()
            began = asyncio.get_running_loop().time()
            answer = await client.compile(body, key=key_of(body), kind=_KINDS[graph % 3], requester=requester)
            waited = asyncio.get_running_loop().time() - began
            if answer.failure is not None:
                stats.fallbacks["compile_failed"] += 1
                stats.local_compile_seconds += seconds
            else:
                stats.hits += answer.served == pb.SERVED_HIT
                stats.joined += answer.served == pb.SERVED_JOINED
                stats.led += answer.served == pb.SERVED_LED
                stats.saved_seconds += seconds * (answer.served != pb.SERVED_LED)
                stats.load_seconds += numbers.uniform(0.02, 0.08) * pace
                stats.first_launch_seconds += numbers.uniform(0.01, 0.2) * pace
            stats.regions[("composed", "whole", "composed")[graph % 3]] += 1
            stats.whole_graphs["too_small"] += graph % 3 == 1
            stats.region_pieces += 34 * (graph % 3 != 1)
            stats.region_distinct += 4 * (graph % 3 != 1)
            stats.remote_caches["autograd-experimental hit" if seed > 3 else "autograd-experimental miss"] += 1
            stats.requests += 1
            stats.dynamo_seconds += dynamo
            stats.aot_seconds += dynamo * numbers.uniform(0.5, 0.8)
            stats.key_seconds += numbers.uniform(0.005, 0.02)
            stats.wait_seconds += waited
            stats.recompiles += numbers.random() < 0.15
            stats.guard_failures += 2 * (numbers.random() < 0.15)
            await client.stub.ReportRank(pb.ReportRankRequest(requester=requester, stats=stats))


async def play(address: str, minutes: float) -> None:
    """Job after job, two at a time."""
    end = asyncio.get_running_loop().time() + minutes * 60

    async def jobs(first: int) -> None:
        turn = first
        while asyncio.get_running_loop().time() < end:
            name = _NAMES[turn % len(_NAMES)]
            ranks = 4 + 4 * (turn % 2)
            ranks_at_once = (one_rank(address, name, number, ranks, 24, 1.2, turn) for number in range(ranks))
            await asyncio.gather(*ranks_at_once)
            turn += 2

    await asyncio.gather(jobs(0), jobs(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--ray", action="store_true")
    args = parser.parse_args()
    settings = {"max_workers": 4, "heartbeat_seconds": 2, "store_max_bytes": "16MiB"}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        listed = None
        if args.ray:
            cluster = RayCluster(workers=2, cpus=2, head_arguments={"include_dashboard": True, "dashboard_port": 0})
            stack.callback(cluster.close)
            listed = cluster.scraped
            daemon = stack.enter_context(ray_daemon(folder / "daemon", cluster.address, **settings))
            until_connected(daemon)
        else:
            daemon = stack.enter_context(running_daemon(folder / "daemon", **settings))
        target = daemon.status().metrics_address
        prometheus = stack.enter_context(running_prometheus(folder / "prometheus", target, ray=listed))
        asyncio.run(play(daemon.address, args.minutes))
        print(prometheus.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
