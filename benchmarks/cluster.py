"""What the registry of a cluster costs, and how that grows with the number of daemons.

    python benchmarks/cluster.py [--json] [--daemons 1 2 4 8 16 32] [--keys 100] [--simulated 32 125 1250] [--simulated-keys 60]

First with a real Ray of this machine: the registry is an actor, workers are scripted processes, and each daemon is the client
that a daemon's bridge runs, all of them in this process. Every daemon asks for every key at once; then all ask again for what
the cluster has by then. Then by simulation, for numbers that one machine cannot hold: the same registry and the same clients
in one process, with workers that are done at once and no Ray between them.
"""

import argparse
import asyncio
import dataclasses
import functools
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from _common import ROOT, machine, show, temporary_folder

from inductord.v1.compiler_pb2 import Toolchain
from inductord.worker.limits import Machine
from inductord.worker.pool import Compiled, Job
from inductord.worker.registry_client import Patience, RegistryClient
from inductord.worker.singleflight import Limits

sys.path.insert(0, str(ROOT / "tests"))

_LIMITS = Limits(max_keys=65536, max_waiters=1 << 20)
_GRAPH_BYTES = 300_000
_ARTIFACT_BYTES = 1_000_000


def _jobs(name: str, count: int) -> list[Job]:
    graph = f'[["size", {_ARTIFACT_BYTES}]]'.ljust(_GRAPH_BYTES).encode()
    return [Job(f"{hash((name, number)) % 2**64:064x}", graph, Toolchain()) for number in range(count)]


async def _ask(clients: list[RegistryClient], jobs: list[Job]) -> list[float]:
    """Every client asks for every job at once. Seconds that each waited."""

    async def one(client: RegistryClient, job: Job) -> float:
        began = time.monotonic()
        outcome = await client.compile(job, lambda: None)
        assert isinstance(outcome, Compiled), outcome
        return time.monotonic() - began

    return list(await asyncio.gather(*(one(client, job) for client in clients for job in jobs)))


def _spread(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=20)
    return {"p50_ms": round(1e3 * statistics.median(seconds), 1), "p95_ms": round(1e3 * cuts[18], 1)}


async def _settled(client: RegistryClient) -> Any:
    """The registry's counts, newer than everything that was asked before."""
    uptime = client.status().cluster.uptime_seconds
    while client.status().cluster.uptime_seconds <= uptime:  # noqa: ASYNC110 -- nothing tells of it
        await asyncio.sleep(0.05)
    return client.status().cluster


async def _on_ray(daemons: int, keys: int, find: Any, name: str) -> dict[str, Any]:
    from inductord.worker.ray_transport import RayTransport

    clients = [RegistryClient(RayTransport(find)) for _ in range(daemons)]
    for client in clients:
        await client.start()
    jobs = _jobs(name, keys)
    before = await _settled(clients[0])
    first = await _ask(clients, jobs)
    between = await _settled(clients[0])
    again = await _ask(clients, jobs)
    after = await _settled(clients[0])
    for client in clients:
        await client.close()
    asked = daemons * keys
    return {
        "daemons": daemons,
        "keys": keys,
        "compiles": between.compiles - before.compiles,
        "registry_cpu_ms_a_request": round(1e3 * (between.cpu_seconds - before.cpu_seconds) / asked, 3),
        "registry_cpu_ms_a_found": round(1e3 * (after.cpu_seconds - between.cpu_seconds) / asked, 3),
        "compiled": _spread(first),
        "found": _spread(again),
    }


async def _simulated(daemons: int, keys: int) -> dict[str, Any]:
    from support.registries import LIMITS, Line, Workers, new_registry

    limits = dataclasses.replace(LIMITS, flights=_LIMITS)
    registry = new_registry(Workers(), time.monotonic, limits)
    # Far apart questions: one process stands for all daemons here, and would be busy with nothing else.
    clients = [RegistryClient(Line(registry), Patience(poll=5.0)) for _ in range(daemons)]
    for client in clients:
        await client.start()
    began, cpu = time.monotonic(), time.process_time()
    await _ask(clients, [dataclasses.replace(job, graph=b"graph") for job in _jobs(f"simulated {daemons}", keys)])
    cpu, wall = time.process_time() - cpu, time.monotonic() - began
    counts = registry.status().cluster
    for client in clients:
        await client.close()
    return {
        "daemons": daemons,
        "keys": keys,
        "compiles": counts.compiles,
        "requests": counts.led + counts.joined + counts.found,
        "cpu_us_a_request": round(1e6 * cpu / (daemons * keys), 1),
        "seconds": round(wall, 2),
    }


def _measure_on_ray(counts: list[int], keys: int, folder: Path) -> list[dict[str, Any]]:
    from support.pools import SCRIPTED

    from inductord.worker.ray_crews import CrewsConfig
    from inductord.worker.ray_registry import find_or_make
    from inductord.worker.ray_session import RaySession

    session = RaySession("local", Machine(cpus=2, memory_bytes=None), folder)
    try:
        config = CrewsConfig(max_artifact_bytes=1 << 30, max_workers=2, command=SCRIPTED)
        find = functools.partial(find_or_make, config, _LIMITS)
        asyncio.run(_on_ray(1, 2, find, "first"))  # workers are started
        return [asyncio.run(_on_ray(count, keys, find, f"ray {count}")) for count in counts]
    finally:
        session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--daemons", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32], help="on Ray")
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--simulated", type=int, nargs="*", default=[32, 125, 1250], help="daemons, without Ray")
    parser.add_argument("--simulated-keys", type=int, default=60)
    args = parser.parse_args()
    with temporary_folder() as folder:
        on_ray = _measure_on_ray(args.daemons, args.keys, folder) if args.daemons else []
    simulated = [asyncio.run(_simulated(count, args.simulated_keys)) for count in args.simulated]
    result = {
        "benchmark": "cluster",
        "machine": machine(),
        "graph_bytes": _GRAPH_BYTES,
        "artifact_bytes": _ARTIFACT_BYTES,
        "ray": on_ray,
        "simulated": simulated,
    }
    rows = [
        (
            f"{each['daemons']} daemons × {each['keys']} keys on Ray",
            f"{each['compiles']} compiles, registry {each['registry_cpu_ms_a_request']} ms a request, "
            f"found in {each['found']['p50_ms']} ms",
        )
        for each in on_ray
    ]
    rows += [
        (
            f"{each['daemons']} daemons × {each['keys']} keys simulated",
            f"{each['compiles']} compiles, {each['cpu_us_a_request']} µs a request, {each['seconds']} s",
        )
        for each in simulated
    ]
    show(result, rows, as_json=args.json)


if __name__ == "__main__":
    main()
