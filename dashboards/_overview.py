"""Overview of a cluster: what compilation costs, what inductord saves, and what is wrong."""

from _parts import NODE, Query, bars, board, heat, lines, number, split
from grafana_foundation_sdk.builders.dashboard import Dashboard

_SHARED = f'inductord_compile_requests_total{{{NODE},result=~"hit|joined"}}'
_SERVED = f'inductord_compile_requests_total{{{NODE},result=~"hit|joined|led"}}'
_SHARED_RATE, _SERVED_RATE, _FALLBACK_RATE = (
    f"sum(rate({series}[$__rate_interval]))" for series in (_SHARED, _SERVED, f"inductord_fallback_total{{{NODE}}}")
)


def made() -> Dashboard:
    """The dashboard."""
    return board(
        "inductord-overview",
        "inductord / Overview",
        "Compilation in a cluster: requests, savings, trouble.",
        [
            (
                "Overview",
                [
                    number(
                        "Daemons",
                        "Daemons that Prometheus reaches.",
                        f"count(inductord_build_info{{{NODE}}})",
                    ),
                    number(
                        "Ranks waiting",
                        "Ranks that wait for an artifact now.",
                        f"sum(inductord_job_waiting_ranks{{{NODE}}})",
                    ),
                    number(
                        "Shared",
                        "Part of the artifacts in the chosen time that needed no compile of their own.",
                        f"sum(increase({_SHARED}[$__range])) / (sum(increase({_SERVED}[$__range])) > 0)",
                        unit="percentunit",
                    ),
                    number(
                        "Compile time saved",
                        "In the chosen time, summed over ranks: what artifacts cost that came without a compile.",
                        f"sum(increase(inductord_compile_seconds_saved_total{{{NODE}}}[$__range]))",
                        unit="s",
                    ),
                    number(
                        "Fallbacks",
                        "Graphs that ranks compiled themselves in the chosen time.",
                        f"round(sum(increase(inductord_fallback_total{{{NODE}}}[$__range])))",
                        steps=[(1, "orange")],
                    ),
                    number(
                        "Failed compiles",
                        "Compiles that failed in the chosen time.",
                        f"round(sum(increase(inductord_compile_failures_total{{{NODE}}}[$__range])))",
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
                        "Refused or failed",
                        "Part of the requests that ended without an artifact.",
                        [
                            Query(
                                "sum(rate(inductord_compile_requests_total"
                                f'{{{NODE},result=~"failed|rejected|error"}}[$__rate_interval]))'
                                f" / (sum(rate(inductord_compile_requests_total{{{NODE}}}[$__rate_interval])) > 0)",
                                "refused or failed",
                            )
                        ],
                        unit="percentunit",
                        most=1,
                    ),
                    heat(
                        "Wait for an artifact",
                        "From a request to its artifact's first byte: hits, joiners and leaders.",
                        "inductord_wait_seconds_bucket",
                    ),
                ],
            ),
            (
                "Sharing and savings",
                [
                    lines(
                        "Shared and not",
                        "Part of the artifacts that needed no compile of their own, and part of all graphs that ranks "
                        "compiled themselves.",
                        [
                            Query(f"{_SHARED_RATE} / ({_SERVED_RATE} > 0)", "shared"),
                            Query(f"{_FALLBACK_RATE} / (({_SERVED_RATE} + {_FALLBACK_RATE}) > 0)", "compiled by ranks"),
                        ],
                        unit="percentunit",
                        most=1,
                    ),
                    lines(
                        "Seconds saved a second",
                        "Compile time that artifacts without a compile of their own would have cost, against that of "
                        "compiles that ran.",
                        [
                            Query(
                                f"sum(rate(inductord_compile_seconds_saved_total{{{NODE}}}[$__rate_interval]))", "saved"
                            ),
                            Query(
                                f"sum(rate(inductord_compile_duration_seconds_sum{{{NODE}}}[$__rate_interval]))",
                                "compiled",
                            ),
                        ],
                    ),
                    split(
                        "Caches of results",
                        "Entries of PyTorch's remote caches, and of traced regions: a hit spares a job the work of tracing.",
                        "inductord_remote_cache_entries_total",
                        "result",
                        unit="cps",
                    ),
                ],
            ),
            (
                "Regions",
                [
                    split(
                        "Regions",
                        "Graphs by what became of their repeated regions.",
                        "inductord_regions_total",
                        "result",
                        unit="cps",
                    ),
                    lines(
                        "Pieces",
                        "Pieces that graphs were cut into, and those that were distinct within their graph.",
                        [
                            Query(f"sum(rate(inductord_region_pieces_total{{{NODE}}}[$__rate_interval]))", "pieces"),
                            Query(
                                f"sum(rate(inductord_region_distinct_total{{{NODE}}}[$__rate_interval]))", "distinct"
                            ),
                        ],
                        unit="cps",
                    ),
                    bars(
                        "Graphs compiled whole",
                        "Graphs of Dynamo that were not cut into regions in the chosen time, by reason. Empty where all were.",
                        [
                            Query(
                                "topk(10, round(sum by (reason) (increase("
                                f"inductord_whole_graphs_total{{{NODE}}}[$__range]))) > 0)",
                                "{{reason}}",
                            )
                        ],
                    ),
                ],
            ),
            (
                "Fallbacks and errors",
                [
                    bars(
                        "Fallbacks by reason",
                        "Graphs that ranks compiled themselves in the chosen time, by reason. Empty is good.",
                        [
                            Query(
                                "topk(10, round(sum by (reason) (increase("
                                f"inductord_fallback_total{{{NODE}}}[$__range]))) > 0)",
                                "{{reason}}",
                            )
                        ],
                    ),
                    bars(
                        "Failed compiles by reason",
                        "In the chosen time, by reason. Empty is good.",
                        [
                            Query(
                                "round(sum by (reason) (increase("
                                f"inductord_compile_failures_total{{{NODE}}}[$__range]))) > 0",
                                "{{reason}}",
                            )
                        ],
                    ),
                    lines(
                        "Recompiles",
                        "Frames that Dynamo compiled again, and compiled versions whose guards did not hold then.",
                        [
                            Query(f"sum(rate(inductord_recompiles_total{{{NODE}}}[$__rate_interval]))", "recompiles"),
                            Query(
                                f"sum(rate(inductord_guard_failures_total{{{NODE}}}[$__rate_interval]))",
                                "guard failures",
                            ),
                        ],
                        unit="cps",
                    ),
                ],
            ),
            (
                "Nodes and jobs",
                [
                    split(
                        "Compiles by node",
                        "Compiles that workers started.",
                        "inductord_compiles_total",
                        "node",
                        unit="cps",
                    ),
                    lines(
                        "Ranks waiting by job",
                        "Ranks that wait for an artifact.",
                        [Query(f"sum by (job) (inductord_job_waiting_ranks{{{NODE}}})", "{{job}}")],
                        stacked=True,
                    ),
                    bars(
                        "Skew between ranks",
                        "The ten jobs whose slowest rank has spent most seconds more on compilation than the quickest.",
                        [
                            Query(
                                "topk(10, max by (job) (inductord_job_rank_seconds"
                                f'{{{NODE},phase="all",stat="max"}}) - min by (job) (inductord_job_rank_seconds'
                                f'{{{NODE},phase="all",stat="min"}}))',
                                "{{job}}",
                            )
                        ],
                        unit="s",
                    ),
                ],
            ),
        ],
    )
