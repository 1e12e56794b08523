"""Gauges by job: how many ranks it has, how many wait, and how the time of its ranks spreads.

Ranks are no label, so a job has the least, the median and the most over its ranks for each phase. Where they differ, some
ranks hold up the others. The spread is worked out in the thread of the scrape.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from inductord.daemon.jobs import JobRanks
from inductord.daemon.metrics.job_labels import JobLabels
from inductord.daemon.rank_stats import OTHER, PHASES

ALL = "all"
SHOWN = tuple(phase for phase in PHASES if phase not in ("key", "serialize"))
"""Phases whose spread is shown; the others take milliseconds, and each costs a scrape 7 kB."""
STATS = ("min", "median", "max")
_INDICES = tuple(list(PHASES).index(phase) for phase in SHOWN)
# Ranks serialise while they wait.
_WITHIN_OTHERS = list(PHASES).index("serialize")
_NOTHING = (0.0,) * len(PHASES)


@dataclasses.dataclass(slots=True)
class JobGauges:
    """One label's numbers. ``seconds``: of each rank, by phase in the order of `PHASES`."""

    ranks: int = 0
    waiting: int = 0
    seconds: list[tuple[float, ...]] = dataclasses.field(default_factory=list)


def gather(jobs: Iterable[JobRanks], waiting: Mapping[str, int], labels: JobLabels) -> dict[str, JobGauges]:
    """The numbers by label. ``waiting``: waiting ranks by job."""
    labels.release()
    gauges = {OTHER: JobGauges()}
    for job in jobs:
        entry = gauges.setdefault(labels.current(job.job), JobGauges())
        entry.ranks += job.seen
        entry.waiting += waiting.get(job.job, 0)
        entry.seconds += job.seconds.values()
    return gauges


def families(gauges: Mapping[str, JobGauges]) -> Iterator[Metric]:
    """The families; call it outside the event loop."""
    ranks = GaugeMetricFamily("inductord_job_ranks", "Ranks of a job that were heard of.", labels=["job"])
    waiting = GaugeMetricFamily(
        "inductord_job_waiting_ranks", "Ranks of a job that wait for an artifact now.", labels=["job"]
    )
    seconds = GaugeMetricFamily(
        "inductord_job_rank_seconds",
        "Wall clock that ranks of a job have spent in one phase: of the rank with the least, the median and the most.",
        labels=["job", "phase", "stat"],
    )
    for label, entry in gauges.items():
        ranks.add_metric([label], entry.ranks)
        waiting.add_metric([label], entry.waiting)
        for phase, values in zip((*SHOWN, ALL), _by_phase(entry.seconds), strict=True):
            for stat, value in zip(STATS, (min(values), statistics.median(values), max(values)), strict=True):
                seconds.add_metric([label, phase, stat], round(value, 3))
    yield from (ranks, waiting, seconds)


def _by_phase(ranks: list[tuple[float, ...]]) -> Iterable[tuple[float, ...]]:
    rows = ((*(each[index] for index in _INDICES), sum(each) - each[_WITHIN_OTHERS]) for each in ranks or [_NOTHING])
    return zip(*rows, strict=True)
