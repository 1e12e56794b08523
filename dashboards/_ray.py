"""Daemons whose pool is a Ray cluster: what they ask of it, and how Ray itself fares.

The row of Ray's own metrics needs Prometheus to scrape Ray as well, see docs/monitoring.md. Their names are Ray's, and a test
asks a real one for them.
"""

from _parts import NODE, Query, bars, board, heat, lines, number, split
from grafana_foundation_sdk.builders.dashboard import Dashboard

_CLUSTER = 'cluster=~"$cluster"'
"""Of Ray's own metrics: a cluster has one Ray, in whatever namespace."""

_ON_RAY = f'and on (instance) (inductord_pool_serving{{{NODE},pool="ray"}} == 1)'


def _ours(name: str, more: str = "") -> str:
    return f"({name}{{{NODE}{more}}} {_ON_RAY})"


def made() -> Dashboard:
    """The dashboard."""
    return board(
        "inductord-ray",
        "inductord / Ray pool",
        "Daemons that compile on Ray, and the Ray cluster itself.",
        [
            (
                "Overview",
                [
                    number(
                        "Daemons on Ray",
                        "Daemons whose graphs are compiled on Ray.",
                        f'sum(inductord_pool_serving{{{NODE},pool="ray"}})',
                    ),
                    number(
                        "Daemons on their own",
                        "Daemons whose graphs are compiled by processes of their node.",
                        f'sum(inductord_pool_serving{{{NODE},pool="local"}})',
                    ),
                    number(
                        "Not as asked for",
                        "Daemons whose pool is not the one that was asked for.",
                        f"sum(inductord_pool_degraded{{{NODE}}})",
                        steps=[(1, "red")],
                    ),
                    number("Workers busy", "Workers on Ray that compile.", f"sum{_ours('inductord_workers', _BUSY)}"),
                    number("Queue", "Graphs that wait for a worker on Ray.", f"sum{_ours('inductord_queue_depth')}"),
                    number(
                        "Most workers", "Workers that daemons may have on Ray.", f"sum{_ours('inductord_workers_max')}"
                    ),
                ],
            ),
            (
                "Pool",
                [
                    lines(
                        "Workers",
                        "Workers on Ray by state.",
                        [Query(f"sum by (state) {_ours('inductord_workers')}", "{{state}}")],
                        stacked=True,
                    ),
                    lines(
                        "Queue by node",
                        "Graphs that wait for a worker on Ray, by the node that asks.",
                        [Query(f"sum by (node) {_ours('inductord_queue_depth')}", "{{node}}")],
                        stacked=True,
                    ),
                    bars(
                        "Worker failures",
                        "In the chosen time, by reason, on all pools. Empty is good.",
                        [
                            Query(
                                "round(sum by (reason) (increase("
                                f"inductord_worker_failures_total{{{NODE}}}[$__range]))) > 0",
                                "{{reason}}",
                            )
                        ],
                    ),
                    heat(
                        "Compiles",
                        "Wall clock of one compile in its worker, on all pools.",
                        "inductord_compile_duration_seconds_bucket",
                        width=12,
                    ),
                    lines(
                        "Bytes",
                        "Graphs to workers and artifacts from them, on all pools.",
                        [
                            Query(f"sum(rate(inductord_graph_bytes_total{{{NODE}}}[$__rate_interval]))", "graphs"),
                            Query(
                                f'sum(rate(inductord_artifact_bytes_total{{{NODE},direction="in"}}[$__rate_interval]))',
                                "artifacts",
                            ),
                        ],
                        unit="Bps",
                        width=12,
                    ),
                ],
            ),
            (
                "Connection and registry",
                [
                    split(
                        "Graphs given to Ray",
                        "By how that ended; the local pool takes those that were moved.",
                        "inductord_ray_jobs_total",
                        "end",
                        unit="cps",
                    ),
                    lines(
                        "Connections",
                        "Connections to Ray that were made, refused or lost, and daemons that have one.",
                        [
                            Query(
                                f"sum by (event) (rate(inductord_ray_connections_total{{{NODE}}}[$__rate_interval]))",
                                "{{event}}",
                            ),
                            Query(f"sum(inductord_ray_connected{{{NODE}}})", "daemons connected"),
                        ],
                    ),
                    lines(
                        "Requests to the registry",
                        "Requests of all daemons of a cluster, by how the registry answered; each daemon tells the same.",
                        [
                            Query(
                                f"max by (result) (rate(inductord_cluster_requests_total{{{NODE}}}[$__rate_interval]))",
                                "{{result}}",
                            )
                        ],
                        unit="reqps",
                        stacked=True,
                    ),
                    lines(
                        "Keys on their way in the cluster",
                        "Keys, daemons' requests that wait for them, and daemons that use the registry.",
                        [
                            Query(f"max(inductord_cluster_flights{{{NODE}}})", "keys"),
                            Query(f"max(inductord_cluster_waiting{{{NODE}}})", "waiting"),
                            Query(f"max(inductord_cluster_daemons{{{NODE}}})", "daemons"),
                        ],
                    ),
                    lines(
                        "Kept in the object store",
                        "Bytes of artifacts that are kept for who asks later.",
                        [Query(f"max(inductord_cluster_kept_bytes{{{NODE}}})", "kept")],
                        unit="bytes",
                    ),
                    lines(
                        "Faults in the cluster",
                        "Workers that did not end by themselves, second tries after that, daemons that fell silent, artifacts "
                        "gone with their node.",
                        [
                            Query(
                                "max by (reason) (rate("
                                f"inductord_cluster_worker_failures_total{{{NODE}}}[$__rate_interval]))",
                                "worker: {{reason}}",
                            ),
                            Query(f"max(rate(inductord_cluster_retries_total{{{NODE}}}[$__rate_interval]))", "retries"),
                            Query(
                                f"max(rate(inductord_cluster_silent_daemons_total{{{NODE}}}[$__rate_interval]))",
                                "silent daemons",
                            ),
                            Query(
                                f"max(rate(inductord_cluster_lost_artifacts_total{{{NODE}}}[$__rate_interval]))",
                                "lost artifacts",
                            ),
                        ],
                        unit="cps",
                    ),
                ],
            ),
            (
                "Ray itself",
                [
                    lines(
                        "CPU of Ray's nodes",
                        "Cores in use, and cores that there are.",
                        [
                            Query(
                                f"sum(ray_node_cpu_utilization{{{_CLUSTER}}} * ray_node_cpu_count{{{_CLUSTER}}}) / 100",
                                "in use",
                            ),
                            Query(f"sum(ray_node_cpu_count{{{_CLUSTER}}})", "there are"),
                        ],
                    ),
                    lines(
                        "Memory of Ray's nodes",
                        "Bytes in use, and bytes that there are.",
                        [
                            Query(f"sum(ray_node_mem_used{{{_CLUSTER}}})", "in use"),
                            Query(f"sum(ray_node_mem_total{{{_CLUSTER}}})", "there are"),
                        ],
                        unit="bytes",
                    ),
                    lines(
                        "Object store",
                        "Bytes by where they lie; graphs and artifacts travel through it.",
                        [Query(f"sum by (Location) (ray_object_store_memory{{{_CLUSTER}}})", "{{Location}}")],
                        unit="bytes",
                        stacked=True,
                    ),
                    lines(
                        "Actors",
                        "Actors that are not dead, by name and state; each worker is one, the registry another.",
                        # Their processes tell of them too, in states of their own.
                        [
                            Query(
                                f'sum by (Name, State) (ray_actors{{{_CLUSTER},Source="gcs",State!="DEAD"}})',
                                "{{Name}} {{State}}",
                            )
                        ],
                        stacked=True,
                        width=12,
                    ),
                    lines(
                        "Tasks",
                        "Calls of actors, and tasks, that are not done, by state.",
                        # Those that are done are counted for ever. Caller and callee tell at different times, and the sum of
                        # both may be less than nothing for a moment.
                        [
                            Query(
                                f'clamp_min(sum by (State) (ray_tasks{{{_CLUSTER},State!~"FINISHED|FAILED"}}), 0)',
                                "{{State}}",
                            )
                        ],
                        stacked=True,
                        width=12,
                    ),
                ],
            ),
        ],
    )


_BUSY = ',state="busy"'
