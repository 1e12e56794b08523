"""Metrics of the way to a Ray cluster, and of what the cluster's registry counts.

Those of the registry are the same on every daemon of a cluster: take the maximum over daemons, not the sum.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from inductord.daemon.pools import RayJob, RayLink
from inductord.v1.admin_pb2 import PoolStatus
from inductord.worker.failures import WorkerFailure


class RayMetrics:
    """Counts what happens with Ray. Implements ``pools.RayEvents``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.links = Counter(
            "inductord_ray_connections",
            "Connections to Ray that were made, refused or lost. While there is none the local pool compiles.",
            ["event"],
            registry=registry,
        )
        self.jobs = Counter(
            "inductord_ray_jobs",
            "Graphs that were given to Ray, by how that ended; the local pool takes those that were moved.",
            ["end"],
            registry=registry,
        )
        self.seconds = Counter(
            "inductord_ray_job_seconds",
            "Time from giving a graph to Ray to its end there; that of moved ones is what a fault of Ray cost.",
            ["end"],
            registry=registry,
        )
        for event in RayLink:
            self.links.labels(event)
        for end in RayJob:
            self.jobs.labels(end)
            self.seconds.labels(end)

    def ray_link(self, event: RayLink) -> None:
        """See ``RayEvents``."""
        self.links.labels(event).inc()

    def ray_job(self, end: RayJob, seconds: float) -> None:
        """See ``RayEvents``."""
        self.jobs.labels(end).inc()
        self.seconds.labels(end).inc(seconds)


def cluster_families(pool: PoolStatus) -> Iterator[Metric]:
    """Gauges and counters of the cluster as this daemon last heard of it; zeros without one."""
    cluster = pool.cluster
    for name, text, value in (
        ("inductord_ray_connected", "Whether Ray compiles, and not the local pool.", float(pool.HasField("cluster"))),
        ("inductord_cluster_daemons", "Daemons that use the cluster's registry.", cluster.daemons),
        ("inductord_cluster_flights", "Keys on their way in the cluster.", cluster.flights),
        ("inductord_cluster_waiting", "Requests of daemons that wait for them.", cluster.waiting),
        (
            "inductord_cluster_kept_artifacts",
            "Artifacts in the object store for who asks later.",
            cluster.kept_artifacts,
        ),
        ("inductord_cluster_kept_bytes", "Their bytes.", cluster.kept_bytes),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    for name, text, value in (
        ("inductord_cluster_compiles", "Compiles that workers of the cluster started.", cluster.compiles),
        ("inductord_cluster_retries", "Of these, second tries after a worker was lost.", cluster.retries),
        ("inductord_cluster_silent_daemons", "Daemons that fell silent with requests open.", cluster.silent_daemons),
        (
            "inductord_cluster_lost_artifacts",
            "Artifacts gone with their node, and compiled again.",
            cluster.lost_artifacts,
        ),
        (
            "inductord_cluster_reattached",
            "New registries that this daemon's bridge had to ask again.",
            cluster.reattached,
        ),
        ("inductord_cluster_registry_cpu_seconds", "CPU time of the registry.", cluster.cpu_seconds),
    ):
        yield CounterMetricFamily(name, text, value=value)
    requests = CounterMetricFamily(
        "inductord_cluster_requests", "Requests of daemons that the registry answered, by how.", labels=["result"]
    )
    for result, count in (
        ("led", cluster.led),
        ("joined", cluster.joined),
        ("found", cluster.found),
        ("failed", cluster.failed),
    ):
        requests.add_metric([result], count)
    yield requests
    lost = CounterMetricFamily(
        "inductord_cluster_worker_failures", "Workers of the cluster that did not end by themselves.", labels=["reason"]
    )
    for reason in WorkerFailure:
        lost.add_metric([reason], cluster.worker_failures.get(reason, 0))
    yield lost
