"""The daemon of a node: requests, phases, store, pool, gRPC, its own process."""

from _parts import NODE, Query, board, heat, lines, number, quantiles, rate, split
from grafana_foundation_sdk.builders.dashboard import Dashboard


def _process(name: str) -> str:
    # Every process has such metrics; the daemon's are those beside ours.
    return f"{name} and on (instance) inductord_build_info{{{NODE}}}"


def made() -> Dashboard:
    """The dashboard."""
    return board(
        "inductord-node",
        "inductord / Node daemon",
        "One daemon, or some: what they serve, where the time goes, store, workers, process.",
        [
            (
                "Overview",
                [
                    number("In flight", "Graphs on their way.", f"sum(inductord_inflight_compiles{{{NODE}}})"),
                    number("Queue", "Graphs that wait for a worker.", f"sum(inductord_queue_depth{{{NODE}}})"),
                    number(
                        "Waiting", "Requests that wait for an artifact.", f"sum(inductord_waiting_requests{{{NODE}}})"
                    ),
                    number("Artifacts", "Entries of the store.", f"sum(inductord_store_entries{{{NODE}}})"),
                    number(
                        "Store",
                        "Part of the store's size that is in use.",
                        f"max(inductord_store_bytes{{{NODE}}} / inductord_store_max_bytes{{{NODE}}})",
                        unit="percentunit",
                        steps=[(0.9, "orange")],
                    ),
                    number(
                        "Pools not as asked for",
                        "Daemons whose pool is not the one that was asked for.",
                        f"sum(inductord_pool_degraded{{{NODE}}})",
                        steps=[(1, "red")],
                    ),
                ],
            ),
            (
                "Requests",
                [
                    split(
                        "Requests",
                        "Requests for artifacts, by how they ended.",
                        "inductord_compile_requests_total",
                        "result",
                        unit="reqps",
                    ),
                    lines(
                        "Wait for an artifact",
                        "From a request to its artifact's first byte.",
                        quantiles("inductord_wait_seconds_bucket"),
                        unit="s",
                    ),
                    lines(
                        "Wait by role",
                        "Average wait of hits, joiners and leaders.",
                        [
                            Query(
                                f"{rate('inductord_wait_seconds_sum', 'role')}"
                                f" / ({rate('inductord_wait_seconds_count', 'role')} > 0)",
                                "{{role}}",
                            )
                        ],
                        unit="s",
                    ),
                ],
            ),
            (
                "Phases",
                [
                    heat(
                        "Compiles",
                        "Wall clock of one compile in its worker.",
                        "inductord_compile_duration_seconds_bucket",
                    ),
                    split(
                        "Phases of workers",
                        "Seconds a second that workers spend in each phase of a compile.",
                        "inductord_phase_duration_seconds_sum",
                        "phase",
                    ),
                    split(
                        "Phases of ranks",
                        "Seconds a second that ranks spend in each phase, as they report it.",
                        "inductord_rank_phase_duration_seconds_sum",
                        "phase",
                        more=',phase!="serialize"',
                    ),
                    heat(
                        "Dynamo on ranks",
                        "Tracing, for each report of a rank.",
                        'inductord_rank_phase_duration_seconds_bucket{phase="dynamo"}',
                    ),
                    heat(
                        "AOTAutograd on ranks",
                        "AOTAutograd and the passes before Inductor, for each report of a rank.",
                        'inductord_rank_phase_duration_seconds_bucket{phase="aot"}',
                    ),
                    heat(
                        "Waiting of ranks",
                        "Waiting for artifacts, for each report of a rank.",
                        'inductord_rank_phase_duration_seconds_bucket{phase="wait"}',
                    ),
                    lines(
                        "Installing artifacts",
                        "Average time that a rank takes to install one.",
                        [
                            Query(
                                f"{rate('inductord_load_duration_seconds_sum')}"
                                f" / ({rate('inductord_load_duration_seconds_count')} > 0)",
                                "load",
                            )
                        ],
                        unit="s",
                    ),
                    split(
                        "Failed compiles",
                        "Compiles that failed, by reason.",
                        "inductord_compile_failures_total",
                        "reason",
                        unit="cps",
                    ),
                    lines(
                        "Fallbacks",
                        "Graphs that ranks compiled themselves, by reason.",
                        [Query(f"{rate('inductord_fallback_total', 'reason')} > 0", "{{reason}}")],
                        unit="cps",
                        stacked=True,
                    ),
                ],
            ),
            (
                "Store",
                [
                    lines(
                        "Size",
                        "Bytes on disk, in memory, and at most on disk.",
                        [
                            Query(f"sum(inductord_store_bytes{{{NODE}}})", "disk"),
                            Query(f"sum(inductord_store_memory_bytes{{{NODE}}})", "memory"),
                            Query(f"sum(inductord_store_max_bytes{{{NODE}}})", "most"),
                        ],
                        unit="bytes",
                    ),
                    split(
                        "Reads",
                        "Artifacts read, by tier; lent ones are read by ranks themselves.",
                        "inductord_store_reads_total",
                        "tier",
                        unit="ops",
                    ),
                    lines(
                        "Evictions and damage",
                        "Entries that had to leave, artifacts found damaged, writes that the disk did not take, imports that "
                        "were refused, and a file of PyTorch's remote caches that was of no use.",
                        [
                            Query(rate("inductord_store_evictions_total", "reason"), "evicted: {{reason}}"),
                            Query(rate("inductord_store_quarantined_total"), "quarantined"),
                            Query(rate("inductord_store_write_failures_total"), "write failures"),
                            Query(
                                rate("inductord_store_imports_total", "result", ',result!~"stored|present"'),
                                "import: {{result}}",
                            ),
                            Query(rate("inductord_cache_failures_total"), "remote caches"),
                        ],
                        unit="ops",
                    ),
                ],
            ),
            (
                "Shared store",
                [
                    split(
                        "Looked for",
                        "Artifacts looked for in the store that nodes share, by how it ended.",
                        "inductord_shared_store_reads_total",
                        "result",
                        unit="ops",
                        width=6,
                    ),
                    split(
                        "Written",
                        "Artifacts to be written to it, by how it ended.",
                        "inductord_shared_store_writes_total",
                        "result",
                        unit="ops",
                        width=6,
                    ),
                    lines(
                        "Bytes read and written",
                        "Bytes of artifacts, in from the shared store and out to it.",
                        [Query(rate("inductord_shared_store_bytes_total", "direction"), "{{direction}}")],
                        unit="Bps",
                        width=6,
                    ),
                    lines(
                        "To be written and left alone",
                        "Artifacts that wait to be written, and daemons that leave the shared store alone after failures.",
                        [
                            Query(f"sum(inductord_shared_store_queue{{{NODE}}})", "queue"),
                            Query(
                                f"sum by (operation) (inductord_shared_store_resting{{{NODE}}})",
                                "resting: {{operation}}",
                            ),
                        ],
                        width=6,
                    ),
                ],
            ),
            (
                "Pool",
                [
                    lines(
                        "Workers",
                        "Workers by state, and how many there may be.",
                        [
                            Query(f"sum by (state) (inductord_workers{{{NODE}}})", "{{state}}"),
                            Query(f"sum(inductord_workers_max{{{NODE}}})", "most"),
                        ],
                        width=6,
                    ),
                    lines(
                        "Use and saturation",
                        "Part of the workers that are busy, graphs that wait for one, and graphs that are being uploaded.",
                        [
                            Query(
                                f'sum(inductord_workers{{{NODE},state="busy"}}) / sum(inductord_workers_max{{{NODE}}})',
                                "busy",
                            ),
                            Query(f"sum(inductord_queue_depth{{{NODE}}})", "queue"),
                            Query(f"sum(inductord_uploads{{{NODE}}})", "uploads"),
                        ],
                        width=6,
                    ),
                    split(
                        "Worker failures",
                        "Workers that did not end by themselves.",
                        "inductord_worker_failures_total",
                        "reason",
                        unit="cps",
                        width=6,
                    ),
                    split(
                        "Tuning",
                        "Kernels that ranks wanted tuned, by how they came to a choice; measuring takes time on a device.",
                        "inductord_kernel_tunings_total",
                        "result",
                        unit="cps",
                        width=6,
                    ),
                ],
            ),
            (
                "gRPC",
                [
                    lines(
                        "RPCs",
                        "RPCs completed, by method.",
                        [Query(f"{rate('grpc_server_handled_total', 'grpc_method')} > 0", "{{grpc_method}}")],
                        unit="reqps",
                        stacked=True,
                    ),
                    lines(
                        "RPCs that failed",
                        "By status code; calls refused because of who made them, by reason; TLS handshakes that failed; "
                        "changed files of tokens, certificates or keys that cannot be read.",
                        [
                            Query(rate("grpc_server_handled_total", "grpc_code", ',grpc_code!="OK"'), "{{grpc_code}}"),
                            Query(rate("inductord_auth_failures_total", "reason"), "refused: {{reason}}"),
                            Query(
                                f"clamp_min({rate('inductord_tls_connections_total')}"
                                f" - {rate('inductord_tls_connections_sound_total')}, 0)",
                                "refused: TLS handshake",
                            ),
                            Query(rate("inductord_auth_reload_failures_total"), "files not reloaded"),
                        ],
                        unit="reqps",
                        stacked=True,
                    ),
                    lines(
                        "Bytes",
                        "Graphs from ranks, artifacts from workers, artifacts to ranks.",
                        [
                            Query(rate("inductord_graph_bytes_total"), "graphs"),
                            Query(rate("inductord_artifact_bytes_total", "direction"), "artifacts {{direction}}"),
                        ],
                        unit="Bps",
                    ),
                ],
            ),
            (
                "Process",
                [
                    lines(
                        "CPU",
                        "Cores that the daemon itself uses; its workers are not in it.",
                        [Query(_process("rate(process_cpu_seconds_total[$__rate_interval])"), "{{instance}}")],
                    ),
                    lines(
                        "Memory",
                        "Resident memory of the daemon itself.",
                        [Query(_process("process_resident_memory_bytes"), "{{instance}}")],
                        unit="bytes",
                    ),
                    lines(
                        "File descriptors",
                        "Open ones.",
                        [Query(_process("process_open_fds"), "{{instance}}")],
                    ),
                ],
            ),
        ],
    )
