"""What ranks report, as metrics: sums over all of them, and counters by job. Never by rank.

The gauges by job are in ``job_gauges``, since they are read and not counted.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from inductord.compiler.reasons import Fallback
from inductord.compiler.regions.reasons import RegionResult, WholeReason
from inductord.daemon.metrics.buckets import COMPILE_BUCKETS
from inductord.daemon.metrics.exemplars import exemplar
from inductord.daemon.metrics.job_labels import JobLabels
from inductord.daemon.rank_stats import BY_LABEL, OTHER, PHASES
from inductord.v1.compiler_pb2 import RankStats, Requester

RESULTS = {"hit": "hits", "joined": "joined", "led": "led"}


class RankMetrics:
    """Counters that grow with reports. ``clock``: seconds, for the labels of jobs."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self.labels = JobLabels(clock, self._forget)
        self.fallbacks = Counter(
            "inductord_fallback",
            "Graphs that ranks compiled themselves, from their reports.",
            ["reason"],
            registry=registry,
        )
        self.regions = Counter(
            "inductord_regions",
            "Graphs of Dynamo by what became of their repeated regions, from the ranks' reports.",
            ["result"],
            registry=registry,
        )
        self.whole_graphs = Counter(
            "inductord_whole_graphs",
            "Graphs of Dynamo that were compiled whole although regions are on, by why.",
            ["reason"],
            registry=registry,
        )
        self.region_pieces = Counter(
            "inductord_region_pieces", "Pieces that graphs of Dynamo were cut into.", registry=registry
        )
        self.region_distinct = Counter(
            "inductord_region_distinct", "Those of the pieces that were distinct within their graph.", registry=registry
        )
        self.remote_caches = Counter(
            "inductord_remote_cache_entries",
            "Entries of PyTorch's remote caches, and of traced regions, that ranks asked for or made, by what became of them.",
            ["cache", "result"],
            registry=registry,
        )
        self.recompiles = Counter(
            "inductord_recompiles", "Frames that Dynamo compiled again, from the ranks' reports.", registry=registry
        )
        self.guard_failures = Counter(
            "inductord_guard_failures",
            "Compiled versions of frames whose guards did not hold when the frame was compiled again.",
            registry=registry,
        )
        self.phase_duration = Histogram(
            "inductord_rank_phase_duration_seconds",
            "Wall clock that a rank spent in one phase between two of its reports, as a rule for one graph.",
            ["phase"],
            buckets=COMPILE_BUCKETS,
            registry=registry,
        )
        self.job_requests = Counter(
            "inductord_job_requests",
            "Artifacts that the ranks of a job got, by how they were served.",
            ["job", "result"],
            registry=registry,
        )
        self.job_fallbacks = Counter(
            "inductord_job_fallbacks", "Graphs that the ranks of a job compiled themselves.", ["job"], registry=registry
        )
        self.job_recompiles = Counter(
            "inductord_job_recompiles", "Frames of a job that Dynamo compiled again.", ["job"], registry=registry
        )
        self.job_guard_failures = Counter(
            "inductord_job_guard_failures",
            "Compiled versions of a job's frames whose guards did not hold when the frame was compiled again.",
            ["job"],
            registry=registry,
        )
        self.job_saved = Counter(
            "inductord_job_compile_seconds_saved",
            "Compile time of artifacts that a job's ranks got without a compile of their own.",
            ["job"],
            registry=registry,
        )
        for reason in (*Fallback, OTHER):
            self.fallbacks.labels(reason)
        for result in (*RegionResult, OTHER):
            self.regions.labels(result)
        for why in (*WholeReason, OTHER):
            self.whole_graphs.labels(why)
        for what in (*sorted(BY_LABEL["remote_caches"]), OTHER):
            self.remote_caches.labels(*_cache_and_result(what))
        for phase in PHASES:
            self.phase_duration.labels(phase)
        self._job(OTHER)

    def reported(self, requester: Requester, new: RankStats) -> None:
        """What a rank reported beyond its last report; labels are those of ``rank_stats``."""
        for reason, count in new.fallbacks.items():
            self.fallbacks.labels(reason).inc(count)
        for result, count in new.regions.items():
            self.regions.labels(result).inc(count)
        for reason, count in new.whole_graphs.items():
            self.whole_graphs.labels(reason).inc(count)
        for what, count in new.remote_caches.items():
            self.remote_caches.labels(*_cache_and_result(what)).inc(count)
        self.region_pieces.inc(new.region_pieces)
        self.region_distinct.inc(new.region_distinct)
        self.recompiles.inc(new.recompiles)
        self.guard_failures.inc(new.guard_failures)
        shown = exemplar(job=requester.job)
        for phase, field in PHASES.items():
            if seconds := getattr(new, field):
                self.phase_duration.labels(phase).observe(seconds, shown)
        job = self.seen(requester.job)
        for result, field in RESULTS.items():
            self.job_requests.labels(job, result).inc(getattr(new, field))
        self.job_fallbacks.labels(job).inc(sum(new.fallbacks.values()))
        self.job_recompiles.labels(job).inc(new.recompiles)
        self.job_guard_failures.labels(job).inc(new.guard_failures)
        self.job_saved.labels(job).inc(new.saved_seconds)

    def seen(self, job: str) -> str:
        """The label of a job that does something, whose counters exist from now on."""
        label = self.labels.label(job)
        self._job(label)
        return label

    def _job(self, label: str) -> None:
        for result in RESULTS:
            self.job_requests.labels(label, result)
        for family in self._by_job():
            family.labels(label)

    def _forget(self, label: str) -> None:
        for result in RESULTS:
            self.job_requests.remove(label, result)
        for family in self._by_job():
            family.remove(label)

    def _by_job(self) -> tuple[Counter, ...]:
        return self.job_fallbacks, self.job_recompiles, self.job_guard_failures, self.job_saved


def _cache_and_result(label: str) -> tuple[str, str]:
    cache, _, result = label.partition(" ")
    return cache, result or OTHER
