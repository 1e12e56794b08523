"""Gauges that are read from the daemon at each scrape.

A scrape comes in a thread of its own and the daemon's state belongs to the event loop, so the reading is done there. What
becomes of it is worked out in the thread.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from inductord.daemon.metrics import job_gauges
from inductord.daemon.metrics.ray import cluster_families
from inductord.daemon.rank_stats import OTHER
from inductord.v1.admin_pb2 import PoolStatus, StoreStatus

_TIMEOUT_S = 5.0
POOLS = ("local", "ray")


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """What the gauges show. ``load_seconds``: of ``loads`` artifacts, as ranks reported."""

    pool: PoolStatus
    store: StoreStatus
    inflight: int
    uploading: int
    waiting: int
    graph_bytes: int
    cache_failures: int
    loads: int
    load_seconds: float
    jobs: Mapping[str, job_gauges.JobGauges]


class LiveCollector(Collector):
    """``take`` is run on ``loop``."""

    def __init__(self, take: Callable[[], Snapshot], loop: asyncio.AbstractEventLoop) -> None:
        self._take = take
        self._loop = loop

    def describe(self) -> Iterator[Metric]:
        """See `described`: registering asks for it, and needs no running daemon."""
        yield from described()

    def collect(self) -> Iterator[Metric]:
        """The families with their values now. Call it from another thread than the event loop's."""

        async def take() -> Snapshot:
            return self._take()

        yield from _families(asyncio.run_coroutine_threadsafe(take(), self._loop).result(_TIMEOUT_S))


def described() -> Iterator[Metric]:
    """The families of a daemon that does nothing."""
    yield from _families(Snapshot(PoolStatus(), StoreStatus(), 0, 0, 0, 0, 0, 0, 0.0, {OTHER: job_gauges.JobGauges()}))


def _families(now: Snapshot) -> Iterator[Metric]:
    for name, text, value in (
        ("inductord_inflight_compiles", "Graphs on their way: uploaded, queued or compiled.", now.inflight),
        ("inductord_queue_depth", "Graphs that wait for a worker.", now.pool.queued),
        ("inductord_uploads", "Graphs that are being uploaded.", now.uploading),
        ("inductord_waiting_requests", "Requests that wait for an artifact.", now.waiting),
        ("inductord_pending_graph_bytes", "Bytes of graphs that wait or are compiled.", now.graph_bytes),
        ("inductord_store_entries", "Entries of the store.", now.store.entries),
        ("inductord_store_bytes", "Bytes of the store on disk.", now.store.bytes),
        ("inductord_store_max_bytes", "Most bytes that the store may have.", now.store.max_bytes),
        ("inductord_store_memory_bytes", "Bytes of artifacts in memory.", now.store.memory_bytes),
        ("inductord_workers_max", "Most workers that the pool may have.", now.pool.max_workers),
        (
            "inductord_pool_devices",
            "Devices on which workers can measure: those that they hold, and free ones.",
            now.pool.devices,
        ),
        ("inductord_pool_degraded", "1 while the pool is not the one that was asked for.", bool(now.pool.note)),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    yield CounterMetricFamily(
        "inductord_cache_failures",
        "Times that the file of PyTorch's remote caches could not be read or written, or began anew.",
        value=now.cache_failures,
    )
    workers = GaugeMetricFamily("inductord_workers", "Workers by state.", labels=["state"])
    for state, count in (("starting", now.pool.starting), ("idle", now.pool.idle), ("busy", now.pool.busy)):
        workers.add_metric([state], count)
    yield workers
    pool = GaugeMetricFamily("inductord_pool_serving", "1 for the pool that compiles.", labels=["pool"])
    for kind in POOLS:
        pool.add_metric([kind], now.pool.kind == kind)
    yield pool
    yield from cluster_families(now.pool)
    yield SummaryMetricFamily(
        "inductord_load_duration_seconds",
        "Time that ranks spent on installing artifacts, from their reports.",
        count_value=now.loads,
        sum_value=now.load_seconds,
    )
    yield from job_gauges.families(now.jobs)
