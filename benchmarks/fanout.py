"""How soon all who wait for one compile have its artifact: seconds from its publication to the last rank served.

    python benchmarks/fanout.py [--json] [--joiners 64] [--megabytes 10] [--runs 5] [--processes 8]

Each joiner is a client of its own with a connection of its own, as a rank is; several share a process. The artifact counts
as published when the daemon begins to write it to its store, and a rank as served when it has checked the digest.
"""

import argparse
import concurrent.futures
import multiprocessing
import statistics
import time
from pathlib import Path

from _common import Daemon, ask, key_of, machine, scripted, scripted_daemon, show, temporary_folder

from inductord.compiler.client import Client
from inductord.daemon.client import AdminClient
from inductord.v1.compiler_pb2 import SERVED_JOINED

_JOIN_TIMEOUT_S = 120.0


def join(address: str, graph: bytes, count: int) -> list[float]:
    """Ask ``count`` times at once. Returns when each was served, in Unix seconds."""
    clients = [Client(address) for _ in range(count)]

    def one(client: Client) -> float:
        received = ask(client, graph)
        served_at = time.time()
        assert received.served == SERVED_JOINED
        return served_at

    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, clients))


def fan_out(
    daemon: Daemon, pool: concurrent.futures.Executor, graph: bytes, release: Path, shares: list[int]
) -> tuple[float, float]:
    """One run. Seconds from the publication to the first and to the last joiner served."""
    with AdminClient(daemon.address) as admin, concurrent.futures.ThreadPoolExecutor(1) as leader:
        leading = leader.submit(ask, Client(daemon.address), graph)
        _wait_for_waiters(admin, key_of(graph), 1)
        joined = [pool.submit(join, daemon.address, graph, share) for share in shares]
        _wait_for_waiters(admin, key_of(graph), 1 + sum(shares))
        release.touch()
        leading.result()
        served = [moment for future in joined for moment in future.result()]
        published = admin.entry(key_of(graph)).created_unix
    return min(served) - published, max(served) - published


def _wait_for_waiters(admin: AdminClient, key: str, count: int) -> None:
    deadline = time.monotonic() + _JOIN_TIMEOUT_S
    while not any(compile_.key == key and compile_.waiters == count for compile_ in admin.status().compiles):
        if time.monotonic() > deadline:
            raise SystemExit(f"{count} ranks never waited at once")
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--joiners", type=int, default=64)
    parser.add_argument("--megabytes", type=float, default=10.0, help="size of the artifact")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--processes", type=int, default=8, help="over how many the joiners are spread")
    args = parser.parse_args()
    shares = [len(range(first, args.joiners, args.processes)) for first in range(min(args.processes, args.joiners))]
    runs = []
    with (
        scripted_daemon() as daemon,
        temporary_folder() as folder,
        concurrent.futures.ProcessPoolExecutor(
            args.processes, mp_context=multiprocessing.get_context("spawn")
        ) as processes,
    ):
        for number in range(args.runs):
            release = folder / f"release-{number}"
            graph = scripted(["wait_for", str(release)], ["size", int(args.megabytes * 1e6)])
            runs.append(fan_out(daemon, processes, graph, release, shares))
    first, last = (statistics.median(times) for times in zip(*runs, strict=True))
    result = {
        "benchmark": "fanout",
        "machine": machine(),
        "joiners": args.joiners,
        "megabytes": args.megabytes,
        "runs": args.runs,
        "processes": args.processes,
        "first_served_s": round(first, 3),
        "all_served_s": round(last, 3),
        "all_served_s_each": [round(run[1], 3) for run in runs],
    }
    rows = [
        (f"{args.joiners} joiners, {args.megabytes:g} MB each", f"median of {args.runs} runs"),
        ("first one served after", f"{first:.3f} s"),
        ("last one served after", f"{last:.3f} s"),
    ]
    show(result, rows, as_json=args.json)


if __name__ == "__main__":
    main()
