"""What a hit costs: time of one artifact from the rank's own client, lookups a second, memory over many requests.

    python benchmarks/hit.py [--json] [--megabytes 2] [--hits 500] [--requests 10000]

A real daemon serves on a Unix socket. Its workers need no torch: what is measured is the way, not the compile. The rank's own
client reads an artifact from the file that the daemon offers it; a rank that cannot open it gets the bytes through the socket.
Both are timed, digest check included.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping

import grpc
import psutil
from _common import Daemon, ask, fetch, key_of, machine, scripted, scripted_daemon, show

from inductord.compiler.client import Client
from inductord.v1.compiler_pb2 import SERVED_HIT, LookupRequest, Served
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

_SMALL = scripted(["size", 4096])
_SINGLE_LOOKUPS = 2000
_BATCH_LOOKUPS = 50
# A rank asks for some dozens of graphs, then it goes.
_REQUESTS_A_CLIENT = 250
_LARGE_EVERY = 20
_WARM_UP = 1000


def seconds_each(count: int, hit: Callable[[], "Served"]) -> list[float]:
    """Seconds of each of ``count`` hits, one after the other."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        served = hit()
        times.append(time.perf_counter() - start)
        assert served == SERVED_HIT
    return times


def hits(daemon: Daemon, graph: bytes, count: int) -> tuple[list[float], list[float]]:
    """Seconds of each hit, by the rank's client and through the socket, over one connection each."""
    client = Client(daemon.address)
    ask(client, graph)
    by_client = seconds_each(count, lambda: ask(client, graph).served)
    client.close()
    with grpc.insecure_channel(daemon.address) as channel:
        stub = CompilerServiceStub(channel)
        return by_client, seconds_each(count, lambda: fetch(stub, graph))


def percentiles_ms(times: list[float]) -> dict[str, float]:
    """p50, p95 and p99 in milliseconds."""
    hundredths = statistics.quantiles(times, n=100)
    return {f"p{p}": round(hundredths[p - 1] * 1000, 2) for p in (50, 95, 99)}


def lookups_a_second(daemon: Daemon, keys: list[str], calls: int) -> float:
    """Keys looked up in a second, ``len(keys)`` in each call, one call after the other."""
    with grpc.insecure_channel(daemon.address) as channel:
        stub = CompilerServiceStub(channel)
        request = LookupRequest(keys=keys)
        stub.Lookup(request)
        start = time.perf_counter()
        for _ in range(calls):
            stub.Lookup(request)
        return calls * len(keys) / (time.perf_counter() - start)


def resident_mb(daemon: Daemon, large: bytes, requests: int) -> tuple[float, float, float]:
    """Resident MB of the daemon: before, after a warm-up, and after ``requests`` more."""
    process = psutil.Process(daemon.pid)

    def resident() -> float:
        return float(process.memory_info().rss) / 1e6

    before = resident()
    _many(daemon, large, _WARM_UP)
    warm = resident()
    _many(daemon, large, requests)
    return before, warm, resident()


def _many(daemon: Daemon, large: bytes, requests: int) -> None:
    for first in range(0, requests, _REQUESTS_A_CLIENT):
        client = Client(daemon.address)
        for number in range(first, min(first + _REQUESTS_A_CLIENT, requests)):
            ask(client, large if number % _LARGE_EVERY == 0 else _SMALL)
        client.close()


def _said(milliseconds: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:g}" for name, value in milliseconds.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--megabytes", type=float, default=2.0, help="size of the artifact")
    parser.add_argument("--hits", type=int, default=500, help="how many hits are timed")
    parser.add_argument("--requests", type=int, default=10_000, help="how many requests the memory is watched over")
    args = parser.parse_args()
    large = scripted(["size", int(args.megabytes * 1e6)])
    with scripted_daemon() as daemon:
        start_mb, warm_mb, end_mb = resident_mb(daemon, large, args.requests)
        by_client, by_socket = (percentiles_ms(times) for times in hits(daemon, large, args.hits))
        key = key_of(large)
        single = lookups_a_second(daemon, [key], _SINGLE_LOOKUPS)
        batch = lookups_a_second(daemon, [key] * 1000, _BATCH_LOOKUPS)
    resident = {"start": round(start_mb, 1), "warm": round(warm_mb, 1), "end": round(end_mb, 1)}
    result = {
        "benchmark": "hit",
        "machine": machine(),
        "megabytes": args.megabytes,
        "hits": args.hits,
        "hit_ms": by_client,
        "hit_through_socket_ms": by_socket,
        "lookups_per_s": {"single": round(single), "batch": round(batch)},
        "requests": args.requests,
        "daemon_resident_mb": resident,
    }
    rows = [
        (f"hit of {args.megabytes:g} MB, in ms", _said(by_client)),
        ("the same through the socket", _said(by_socket)),
        ("lookups a second, one key a call", f"{single:,.0f}"),
        ("keys a second, 1 000 keys a call", f"{batch:,.0f}"),
        (f"daemon's memory over {args.requests:,} requests", f"{warm_mb:.0f} MB, then {end_mb:.0f} MB"),
    ]
    show(result, rows, as_json=args.json)


if __name__ == "__main__":
    main()
