"""One job: what its ranks spend their time on, who waits for whom, and what it got without a compile.

Ranks are no label. Each phase has the least, the median and the most over the ranks, so a straggler is the gap between
the median and the most.
"""

from _parts import JOB, Query, bars, board, lines, number
from grafana_foundation_sdk.builders.dashboard import Dashboard

_PHASES = (
    ("dynamo", "tracing by Dynamo"),
    ("aot", "AOTAutograd and the passes before Inductor"),
    ("wait", "waiting for artifacts"),
    ("load", "loading artifacts"),
    ("launch", "first launches of compiled graphs, on the host"),
    ("local", "compiling on the rank itself"),
)


def _spent(stat: str, more: str = "") -> str:
    return f'inductord_job_rank_seconds{{{JOB},stat="{stat}"{more}}}'


def _spread(phase: str, words: str) -> object:
    more = f',phase="{phase}"'
    return lines(
        f"Ranks: {phase}",
        f"Seconds that ranks have spent since their start on {words}: the quickest, the median and the slowest.",
        [
            Query(f"min by (job) ({_spent('min', more)})", "{{job}} quickest"),
            Query(f"max by (job) ({_spent('median', more)})", "{{job}} median"),
            Query(f"max by (job) ({_spent('max', more)})", "{{job}} slowest"),
        ],
        unit="s",
    )


def made() -> Dashboard:
    """The dashboard."""
    slowest, median, quickest = (_spent(stat, ',phase="all"') for stat in ("max", "median", "min"))
    return board(
        "inductord-job",
        "inductord / Job",
        "The ranks of a job: phases, waits, stragglers.",
        [
            (
                "Overview",
                [
                    number("Ranks", "Ranks that the daemons heard of.", f"sum(inductord_job_ranks{{{JOB}}})"),
                    number(
                        "Ranks waiting",
                        "Ranks that wait for an artifact now.",
                        f"sum(inductord_job_waiting_ranks{{{JOB}}})",
                    ),
                    number(
                        "Shared",
                        "Part of the job's artifacts that needed no compile of their own.",
                        f'sum(inductord_job_requests_total{{{JOB},result=~"hit|joined"}})'
                        f" / (sum(inductord_job_requests_total{{{JOB}}}) > 0)",
                        unit="percentunit",
                    ),
                    number(
                        "Compile time saved",
                        "Compile time of artifacts that came without a compile, summed over ranks.",
                        f"sum(inductord_job_compile_seconds_saved_total{{{JOB}}})",
                        unit="s",
                    ),
                    number(
                        "Skew",
                        "Seconds that the slowest rank has spent on compilation more than the quickest.",
                        f"max(max by (job) ({slowest}) - min by (job) ({quickest}))",
                        unit="s",
                        steps=[(30, "orange"), (120, "red")],
                    ),
                    number(
                        "Fallbacks",
                        "Graphs that the job's ranks compiled themselves.",
                        f"sum(inductord_job_fallbacks_total{{{JOB}}})",
                        steps=[(1, "orange")],
                    ),
                ],
            ),
            (
                "Phases of ranks",
                [
                    lines(
                        "The median rank",
                        "Seconds spent since the start, by phase.",
                        [Query(f"max by (phase) ({_spent('median', _NOT_ALL)})", "{{phase}}")],
                        unit="s",
                        stacked=True,
                        width=12,
                    ),
                    lines(
                        "The slowest rank of each phase",
                        "Seconds spent since the start, by phase. Not one rank: each phase has its own slowest.",
                        [Query(f"max by (phase) ({_spent('max', _NOT_ALL)})", "{{phase}}")],
                        unit="s",
                        stacked=True,
                        width=12,
                    ),
                ],
            ),
            (
                "Who waits for whom",
                [
                    lines(
                        "Ranks: all phases",
                        "Seconds that ranks have spent on compilation: the quickest ranks wait for the slowest.",
                        [
                            Query(f"min by (job) ({quickest})", "{{job}} quickest"),
                            Query(f"max by (job) ({median})", "{{job}} median"),
                            Query(f"max by (job) ({slowest})", "{{job}} slowest"),
                        ],
                        unit="s",
                    ),
                    bars(
                        "Gap by phase",
                        "Seconds between the median rank and the slowest: where a straggler loses its time.",
                        [
                            Query(
                                f"max by (phase) ({_spent('max', _NOT_ALL)}) - max by (phase) ({_spent('median', _NOT_ALL)})",
                                "{{phase}}",
                            )
                        ],
                        unit="s",
                    ),
                    lines(
                        "Ranks and who of them waits",
                        "Ranks that wait for an artifact. The others trace, load, train, or wait for these in a collective.",
                        [
                            Query(f"sum by (job) (inductord_job_waiting_ranks{{{JOB}}})", "{{job}} waiting"),
                            Query(f"sum by (job) (inductord_job_ranks{{{JOB}}})", "{{job}} ranks"),
                        ],
                    ),
                    *(_spread(phase, words) for phase, words in _PHASES),
                ],
            ),
            (
                "Requests and recompiles",
                [
                    lines(
                        "Artifacts",
                        "Artifacts that ranks got, by how they were served.",
                        [
                            Query(
                                f"sum by (result) (rate(inductord_job_requests_total{{{JOB}}}[$__rate_interval]))",
                                "{{result}}",
                            )
                        ],
                        unit="reqps",
                        stacked=True,
                    ),
                    lines(
                        "Recompiles",
                        "Frames that Dynamo compiled again, and compiled versions whose guards did not hold then.",
                        [
                            Query(
                                f"sum by (job) (rate(inductord_job_recompiles_total{{{JOB}}}[$__rate_interval]))",
                                "{{job}} recompiles",
                            ),
                            Query(
                                f"sum by (job) (rate(inductord_job_guard_failures_total{{{JOB}}}[$__rate_interval]))",
                                "{{job}} guard failures",
                            ),
                        ],
                        unit="cps",
                    ),
                    lines(
                        "Graphs compiled by ranks",
                        "Graphs that ranks compiled themselves.",
                        [
                            Query(
                                f"sum by (job) (rate(inductord_job_fallbacks_total{{{JOB}}}[$__rate_interval]))",
                                "{{job}}",
                            )
                        ],
                        unit="cps",
                    ),
                ],
            ),
        ],
        by_job=True,
    )


_NOT_ALL = ',phase!="all"'
