"""Recording and alerting rules: the one source of the plain file and of the PrometheusRule.

Recording rules are named level:metric:operation. Daemons are told apart by ``cluster``, ``namespace``, ``node`` and
``instance``; a label that Prometheus does not give its targets is simply empty. Each alert has a page in docs/runbooks.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

_DAEMON = "cluster, namespace, node, instance"
# Where people read the pages is known where the rules are deployed, not here: an external label of Prometheus says it.
_RUNBOOKS = '{{ or $externalLabels.inductord_runbooks "docs/runbooks" }}'
_SERVED = 'inductord_compile_requests_total{result=~"hit|joined|led"}'
_FALLBACKS = 'inductord_fallback_total{reason!="disabled"}'
_NO_POOL = 'inductord_compile_failures_total{reason="pool_unavailable"}'
_SHARED = 'inductord_compile_requests_total{result=~"hit|joined"}'

# What counts as too much. People change these here and run dashboards/build.py.
FALLBACK_RATIO = 0.2
FAILURE_RATIO = 0.05
HIT_RATIO_DROP = 0.5
COMPILE_P95_S = 120
STORE_FILL = 0.9
RECOMPILES = 50
SKEW_S = 60


@dataclasses.dataclass(frozen=True)
class Record:
    """A recording rule."""

    name: str
    expr: str

    def as_rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"record": self.name, "expr": self.expr}


@dataclasses.dataclass(frozen=True)
class Alert:
    """An alerting rule; ``slug`` names its page in docs/runbooks."""

    name: str
    slug: str
    expr: str
    hold: str
    severity: Literal["critical", "warning", "info"]
    summary: str
    description: str

    def as_rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.hold,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{_RUNBOOKS}/{self.slug}.md",
            },
        }


def _sum(inner: str, by: str = _DAEMON) -> str:
    return f"sum by ({by}) ({inner})"


def _ratio(part: str, whole: str) -> str:
    # Nothing divided by nothing would be NaN, on dashboards and in alerts' texts.
    return f"{part} / ({whole} > 0)"


RECORDS = (
    Record(
        "instance:inductord_compile_requests:rate5m",
        _sum("rate(inductord_compile_requests_total[5m])", f"{_DAEMON}, result"),
    ),
    Record(
        "instance:inductord_compile_requests_shared:ratio_rate1h",
        _ratio(_sum(f"rate({_SHARED}[1h])"), _sum(f"rate({_SERVED}[1h])")),
    ),
    Record(
        "instance:inductord_fallback:ratio_rate15m",
        _ratio(
            _sum(f"rate({_FALLBACKS}[15m])"), f"({_sum(f'rate({_SERVED}[15m])')} + {_sum(f'rate({_FALLBACKS}[15m])')})"
        ),
    ),
    Record(
        "instance:inductord_compile_failures:ratio_rate15m",
        _ratio(
            _sum('rate(inductord_compile_duration_seconds_count{outcome="failed"}[15m])'),
            _sum("rate(inductord_compile_duration_seconds_count[15m])"),
        ),
    ),
    Record(
        "instance:inductord_compile_duration_seconds:p95_rate30m",
        f"histogram_quantile(0.95, {_sum('rate(inductord_compile_duration_seconds_bucket[30m])', f'{_DAEMON}, le')})",
    ),
    Record("instance:inductord_store_bytes:ratio", "inductord_store_bytes / (inductord_store_max_bytes > 0)"),
    Record(
        "job:inductord_job_recompiles:increase15m",
        _sum("increase(inductord_job_recompiles_total[15m])", "cluster, namespace, node, job"),
    ),
    Record(
        "job:inductord_job_rank_seconds:skew",
        'max by (cluster, namespace, node, job) (inductord_job_rank_seconds{phase="all", stat="max"})'
        ' - min by (cluster, namespace, node, job) (inductord_job_rank_seconds{phase="all", stat="min"})',
    ),
)

ALERTS = (
    Alert(
        "InductordDaemonDown",
        "daemon-down",
        'up{job=~"(.*/)?inductord"} == 0',
        "5m",
        "critical",
        "The daemon on {{ $labels.instance }} does not answer.",
        "Prometheus could not scrape it for 5 minutes. Jobs on that node train, and each of their ranks compiles for itself.",
    ),
    Alert(
        "InductordFallbackRatioHigh",
        "fallback-ratio",
        f"instance:inductord_fallback:ratio_rate15m > {FALLBACK_RATIO}",
        "10m",
        "warning",
        "Ranks on {{ $labels.instance }} compile {{ $value | humanizePercentage }} of their graphs themselves.",
        "Training goes on and gains less from inductord. The reason is a label of inductord_fallback_total.",
    ),
    Alert(
        "InductordCompileFailureRatioHigh",
        "failure-ratio",
        f"instance:inductord_compile_failures:ratio_rate15m > {FAILURE_RATIO}",
        "10m",
        "warning",
        "{{ $value | humanizePercentage }} of the compiles on {{ $labels.instance }} fail.",
        "Ranks whose compile failed compile by themselves. The reason is a label of inductord_compile_failures_total.",
    ),
    Alert(
        "InductordHitRatioDropped",
        "hit-ratio",
        "instance:inductord_compile_requests_shared:ratio_rate1h"
        f" < {HIT_RATIO_DROP} * instance:inductord_compile_requests_shared:ratio_rate1h offset 1d"
        f" and {_sum(f'increase({_SERVED}[1h])')} > 20",
        "15m",
        "warning",
        "Artifacts are shared much less than a day ago on {{ $labels.instance }}.",
        "Only {{ $value | humanizePercentage }} of the requests in the last hour were served without a compile of their own, "
        "less than half of what it was a day ago.",
    ),
    Alert(
        "InductordQueueStuck",
        "queue-stuck",
        f"{_sum('inductord_queue_depth')} > 0 and {_sum('increase(inductord_compiles_total[15m])')} == 0",
        "10m",
        "critical",
        "{{ $value }} graphs wait on {{ $labels.instance }} and no compile starts.",
        "No worker took a graph for 15 minutes. Ranks give up after INDUCTORD_MAX_WAIT and compile by themselves.",
    ),
    Alert(
        "InductordPoolUnreachable",
        "pool-unreachable",
        f"{_sum('inductord_pool_degraded')} > 0 or {_sum(f'increase({_NO_POOL}[10m])')} > 0",
        "5m",
        "warning",
        "The pool of {{ $labels.instance }} is not the one that was asked for.",
        "Either Ray cannot be reached and workers of the node compile instead, or no worker can be started. "
        "`inductord status` says why.",
    ),
    Alert(
        "InductordCompileSlow",
        "compile-slow",
        f"instance:inductord_compile_duration_seconds:p95_rate30m > {COMPILE_P95_S}",
        "15m",
        "warning",
        "A twentieth of the compiles on {{ $labels.instance }} take longer than {{ $value | humanizeDuration }}.",
        f"More than {COMPILE_P95_S} s. Ranks that wait longer than INDUCTORD_MAX_WAIT compile by themselves.",
    ),
    Alert(
        "InductordStoreNearlyFull",
        "store-full",
        f"instance:inductord_store_bytes:ratio > {STORE_FILL}",
        "30m",
        "info",
        "The store on {{ $labels.instance }} is {{ $value | humanizePercentage }} full.",
        "Entries that were not used for longest leave it. Jobs that need them compile again.",
    ),
    Alert(
        "InductordRecompileStorm",
        "recompile-storm",
        f"job:inductord_job_recompiles:increase15m > {RECOMPILES}",
        "5m",
        "warning",
        "Job {{ $labels.job }} recompiled {{ $value | humanize }} times in 15 minutes.",
        "Guards of its frames fail again and again, usually since a shape or a Python value changes with every step.",
    ),
    Alert(
        "InductordRankSkew",
        "rank-skew",
        f"job:inductord_job_rank_seconds:skew > {SKEW_S}"
        " and sum by (cluster, namespace, node, job) (increase(inductord_job_requests_total[15m])) > 0",
        "5m",
        "warning",
        "The slowest rank of job {{ $labels.job }} is {{ $value | humanizeDuration }} behind the quickest.",
        "In seconds spent on compilation. The quick ranks wait for it at the next collective, and may time out there.",
    ),
)


def groups() -> list[Mapping[str, Any]]:
    """The groups of a rule file."""
    return [
        {"name": "inductord.records", "interval": "30s", "rules": [record.as_rule() for record in RECORDS]},
        {"name": "inductord.alerts", "interval": "30s", "rules": [alert.as_rule() for alert in ALERTS]},
    ]


def prometheus_rule() -> Mapping[str, Any]:
    """The same for the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "inductord",
            "labels": {"app.kubernetes.io/name": "inductord", "app.kubernetes.io/component": "monitoring"},
        },
        "spec": {"groups": groups()},
    }
