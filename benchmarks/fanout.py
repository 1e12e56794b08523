"""How soon all who wait for one compile have its artifact: seconds from its publication to the last rank served.

    python benchmarks/fanout.py [--json] [--joiners 64] [--megabytes 10] [--runs 5] [--processes 8] [--socket]

Each joiner is a client of its own with a connection of its own, as a rank is; several share a process. The artifact counts
as published when the daemon begins to write it to its store, and a rank as served when it has checked the digest. The rank's
own client reads the artifact from the file that the daemon offers it; with ``--socket`` all bytes go through the socket.
"""

import argparse
import concurrent.futures
import functools
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import grpc
from _common import Daemon, ask, fetch, key_of, machine, scripted, scripted_daemon, show, temporary_folder

from inductord.compiler.client import Client
from inductord.daemon.client import AdminClient
from inductord.v1.compiler_pb2 import SERVED_JOINED
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

_JOIN_TIMEOUT_S = 120.0


def join(address: str, graph: bytes, through_socket: bool, count: int) -> list[float]:
    """Ask ``count`` times at once. Returns when each was served, in Unix seconds."""

    def one(_: int) -> float:
        if through_socket:
            with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
                served = fetch(CompilerServiceStub(channel), graph)
        else:
            served = ask(Client(address), graph).served
        served_at = time.time()
        assert served == SERVED_JOINED
        return served_at

    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return list(threads.map(one, range(count)))


def fan_out(
    daemon: Daemon,
    processes: concurrent.futures.Executor,
    joiners: Callable[[int], list[float]],
    graph: bytes,
    release: Path,
    shares: list[int],
) -> tuple[float, float]:
    """One run: ``joiners`` asks a number of times at once, in each of the processes. Seconds from the publication to the
    first and to the last one served."""
    with AdminClient(daemon.address) as admin, concurrent.futures.ThreadPoolExecutor(1) as leader:
        leading = leader.submit(ask, Client(daemon.address), graph)
        _wait_for_waiters(admin, key_of(graph), 1)
        joined = [processes.submit(joiners, share) for share in shares]
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
    parser.add_argument("--socket", action="store_true", help="through the socket, not as a file")
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
            joiners = functools.partial(join, daemon.address, graph, args.socket)
            runs.append(fan_out(daemon, processes, joiners, graph, release, shares))
    first, last = (statistics.median(times) for times in zip(*runs, strict=True))
    result = {
        "benchmark": "fanout",
        "machine": machine(),
        "joiners": args.joiners,
        "megabytes": args.megabytes,
        "runs": args.runs,
        "processes": args.processes,
        "through_socket": args.socket,
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
