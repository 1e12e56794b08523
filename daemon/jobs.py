"""Sums by job, from what its ranks report and ask for. Bounded in jobs, ranks and keys: clients choose all three.

Pure, with an injected clock. Nothing here decides anything: it is for reports.
"""

import dataclasses
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from inductord.daemon.cuts import CutTable
from inductord.daemon.orders import Order
from inductord.daemon.rank_stats import bounded, difference, phase_seconds, total
from inductord.daemon.timeline import JobTimeline
from inductord.v1.admin_pb2 import JobSummary, Timeline
from inductord.v1.compiler_pb2 import RankStats, RankTrace, Requester
from inductord.worker.pool import Outcome

MAX_JOBS = 128
MAX_RANKS = 4096
MAX_KEYS = 10_000
MAX_SPANS = 300_000
"""Of all jobs, shared among the tenants that have any. A span takes about 150 bytes."""


@dataclasses.dataclass(slots=True)
class _Job:
    timeline: JobTimeline
    world_size: int = 0
    compiles: int = 0
    seen: float = 0.0
    ranks: set[int] = dataclasses.field(default_factory=set)
    # By rank and pid: a restarted rank counts from zero again.
    reports: dict[tuple[int, int], RankStats] = dataclasses.field(default_factory=dict)
    # By rank: seconds by phase of the process that reported last.
    seconds: dict[int, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    # Digests, not hex: half the memory.
    keys: set[bytes] = dataclasses.field(default_factory=set)

    def add_key(self, key: bytes) -> None:
        if len(self.keys) < MAX_KEYS:
            self.keys.add(key)

    def add_rank(self, rank: int) -> None:
        if len(self.ranks) < MAX_RANKS:
            self.ranks.add(rank)


@dataclasses.dataclass(frozen=True, slots=True)
class JobRanks:
    """The ranks of one job as they stand. ``seen``: how many; ``seconds``: by rank that reported, by phase in the order of
    ``rank_stats.PHASES``."""

    job: str
    seen: int
    seconds: Mapping[int, tuple[float, ...]]


class JobTable:
    """The ``MAX_JOBS`` jobs seen last. Requests without a job's name are no job.

    ``clock``: seconds since whenever; ``wall_clock``: seconds since 1970, for timelines; ``most_spans``: how many spans these
    jobs may have now, all together. ``cuts``: how their graphs were cut, as long as there is room, apart from the jobs.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] = time.time,
        most_spans: Callable[[], int] = lambda: MAX_SPANS,
    ) -> None:
        self._clock = clock
        self._most_spans = most_spans
        self._wall_clock = wall_clock
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self.cuts = CutTable()

    def asked(self, requester: Requester, key: str) -> None:
        """A rank asked for ``key`` (64 hex digits)."""
        if job := self._touch(requester.job):
            job.add_key(bytes.fromhex(key))
            job.add_rank(requester.rank)
            job.world_size = max(job.world_size, requester.world_size)

    def queued(self, order: Order, attempt: int) -> None:
        """A graph of ``order.job`` goes to the pool."""
        if job := self._touch(order.job):
            job.timeline.queued(order, attempt)

    def compiling(self, order: Order) -> None:
        """A worker began with a graph of ``order.job``."""
        if job := self._touch(order.job):
            job.compiles += 1
            job.timeline.started(order.key)

    def compiled(self, order: Order, outcome: Outcome) -> None:
        """The pool is done with a graph of ``order.job``."""
        if job := self._touch(order.job):
            job.timeline.ended(order.key, outcome)

    def abandoned(self, order: Order) -> None:
        """A graph of ``order.job`` was taken back from the pool."""
        if job := self._touch(order.job):
            job.timeline.abandoned(order.key)

    def traced(self, requester: Requester, trace: RankTrace) -> int:
        """Take the new spans of a rank. Returns how many it recorded that need not be sent again."""
        job = self._touch(requester.job)
        if job is None:
            return trace.first + len(trace.spans)
        taken = job.timeline.traced(requester.rank, requester.pid, trace)
        self._forget_old_spans(job)
        return taken

    def _forget_old_spans(self, newest: _Job) -> None:
        """Let the spans of jobs go that were not seen for long, so that all together are within the share."""
        excess = sum(job.timeline.spans for job in self._jobs.values()) - self._most_spans()
        for job in self._jobs.values():
            if excess <= 0:
                return
            excess -= job.timeline.shrink(max(job.timeline.spans - excess, 0) if job is newest else 0)

    def report(self, requester: Requester, stats: RankStats) -> RankStats:
        """Take a rank's cumulative report. Returns what is new since its last one, with reasons in the closed set."""
        current = bounded(stats)
        job = self._touch(requester.job)
        if job is None:
            # Nothing to compare with: counting it would count the same again with the next report.
            return RankStats()
        job.world_size = max(job.world_size, requester.world_size)
        for key in stats.keys[:MAX_KEYS]:
            if digest := _digest(key):
                job.add_key(digest)
        job.add_rank(requester.rank)
        who = (requester.rank, requester.pid)
        before = job.reports.get(who)
        if before is None and len(job.reports) >= MAX_RANKS:
            return RankStats()
        job.reports[who] = current
        job.seconds[requester.rank] = phase_seconds(current)
        return difference(current, before or RankStats())

    def summary(self, job: str) -> JobSummary | None:
        """Sums over the ranks of ``job``; None when it is unknown."""
        entry = self._jobs.get(job)
        return None if entry is None else self._summarise(job, entry)

    def timeline(self, job: str) -> Iterator[Timeline] | None:
        """When things happened in ``job``, or, without a name, in the job seen last, as parts to be merged in order; None
        when it is unknown."""
        name = job or next(reversed(self._jobs), "")
        entry = self._jobs.get(name)
        if entry is None:
            return None
        head = Timeline(job=self._summarise(name, entry), taken_unix=self._wall_clock())
        return itertools.chain((head,), entry.timeline.parts())

    def summaries(self) -> list[JobSummary]:
        """All jobs, seen last first."""
        return [self._summarise(name, entry) for name, entry in reversed(self._jobs.items())]

    def recent(self, seconds: float) -> Iterator[JobRanks]:
        """Jobs of which a rank was heard in the last ``seconds``, seen last first."""
        oldest = self._clock() - seconds
        for name, job in reversed(self._jobs.items()):
            if job.seen < oldest:
                return
            yield JobRanks(name, len(job.ranks), job.seconds)

    def _touch(self, name: str) -> _Job | None:
        if not name:
            return None
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = _Job(JobTimeline(self._wall_clock))
        self._jobs.move_to_end(name)
        while len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)
        job.seen = self._clock()
        return job

    def _summarise(self, name: str, job: _Job) -> JobSummary:
        return JobSummary(
            job=name,
            ranks=len(job.ranks),
            world_size=job.world_size,
            graphs=len(job.keys),
            compiles=job.compiles,
            sum=total(job.reports.values()),
            last_seen_seconds_ago=self._clock() - job.seen,
        )


def _digest(key: str) -> bytes | None:
    try:
        digest = bytes.fromhex(key)
    except ValueError:
        return None
    return digest if len(digest) == 32 else None
