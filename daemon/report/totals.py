"""What a job saved: from the files that its ranks left and from what the daemon counted for it. Pure but for reading
the files.

Each rank writes ``rank-<rank>-<pid>.json`` at its end. A rank that was killed leaves none; the daemon may know of it,
since ranks also report while they run.
"""

import dataclasses
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from inductord.compiler.regions.reasons import RegionResult
from inductord.daemon import rank_stats
from inductord.daemon.cli import words
from inductord.daemon.cli.fallback_words import phrase
from inductord.v1.admin_pb2 import JobSummary
from inductord.v1.compiler_pb2 import RankStats, RankTrace

_NO_GRAPH = "The ranks asked for no graph: nothing was compiled, or PyTorch's own cache on this machine had it all."
_WIDTH = 80
_RANK_FIELDS = ("rank", "world_size", "pid", "job")


@dataclasses.dataclass(frozen=True, slots=True)
class RankFile:
    """What one rank's process wrote."""

    rank: int
    world_size: int
    stats: RankStats
    pid: int = 0
    trace: RankTrace = dataclasses.field(default_factory=RankTrace)


@dataclasses.dataclass(frozen=True, slots=True)
class RunReport:
    """Sums over the ranks of one job. Seconds are wall clock of one rank, added up over ranks.

    ``compiles``: how many compiles the daemon ran for this job; when it cannot be asked, how many the ranks caused.
    ``regions``: graphs of Dynamo by what became of them (``RegionResult``); ``whole_graphs``: by why they were not cut
    (``WholeReason``); ``region_pieces``, ``region_distinct``: pieces of those that were, and distinct ones within each.
    ``remote_caches``: entries of PyTorch's remote caches by cache and what became of them (``compiler.remote_caches``).
    ``notes``: what the numbers leave out, as sentences for people.
    """

    job: str
    ranks: int
    world_size: int
    graphs: int
    requests: int
    compiles: int
    hits: int
    joined: int
    led: int
    saved_seconds: float
    wait_seconds: float
    load_seconds: float
    local_compile_seconds: float
    fallbacks: Mapping[str, int]
    regions: Mapping[str, int]
    whole_graphs: Mapping[str, int]
    region_pieces: int
    region_distinct: int
    remote_caches: Mapping[str, int]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For scripts; field names are stable."""
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            **{name: dict(getattr(self, name)) for name in ("fallbacks", "regions", "whole_graphs", "remote_caches")},
            "fallbacks_total": sum(self.fallbacks.values()),
            "notes": list(self.notes),
        }


def read_rank_files(folder: Path) -> tuple[list[RankFile], list[str]]:
    """The ranks' files, and the names of those that are damaged: a rank was killed while it wrote."""
    read, damaged = [], []
    for path in sorted(folder.glob("rank-*.json")):
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            own = {name: fields.pop(name) for name in _RANK_FIELDS if name in fields}
            trace = json_format.ParseDict(fields.pop("trace", {}), RankTrace(), ignore_unknown_fields=True)
            stats = json_format.ParseDict(fields, RankStats(), ignore_unknown_fields=True)
            read.append(RankFile(int(own["rank"]), int(own["world_size"]), stats, int(own.get("pid", 0)), trace))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, json_format.ParseError):
            damaged.append(path.name)
    return read, damaged


def make_report(
    job: str,
    ranks: Sequence[RankFile],
    *,
    daemon: JobSummary | None,
    notes: Iterable[str] = (),
    damaged: Sequence[str] = (),
) -> RunReport:
    """Put both accounts together. The ranks' own is taken, unless the daemon heard of more requests than it has."""
    said = list(notes)
    if damaged:
        said.append(f"{words.count(len(damaged), 'rank report')} could not be read ({', '.join(damaged[:3])}).")
    total = rank_stats.total(rank.stats for rank in ranks)
    total.keys.extend({key for rank in ranks for key in rank.stats.keys})
    seen = len({rank.rank for rank in ranks})
    world = max((rank.world_size for rank in ranks), default=0)
    if daemon is not None:
        world = max(world, daemon.world_size)
        if daemon.sum.requests > total.requests:
            said.append(
                f"{words.count(seen, 'rank')} left a report and the daemon heard of {daemon.ranks}; "
                "the numbers are the daemon's."
            )
            seen, total = daemon.ranks, daemon.sum
    if not seen:
        said.append(
            "No rank reported: nothing was compiled with torch.compile, inductord was off, or the command runs another "
            "Python, without inductord in it."
        )
    elif not total.requests and not total.fallbacks:
        said.append(_NO_GRAPH)
    unanswered = total.requests - total.led - total.joined - total.hits - sum(total.fallbacks.values())
    if unanswered > 0:
        # What is asked for ahead of need may be in PyTorch's cache when it is needed, put there by another rank.
        said.append(
            f"The answers to {words.count(unanswered, 'request')} were not waited for: the job ended, or PyTorch's own cache "
            "on this machine had the graph by then."
        )
    if 0 < seen < world and (total.requests or total.fallbacks):
        said.append(f"{seen} of {world} ranks reported; the others were ended by force or run elsewhere.")
    return _report(job, total, seen, world, daemon, said)


def from_daemon(daemon: JobSummary) -> RunReport:
    """The daemon's account alone, of a job that may still run."""
    said = []
    if not daemon.sum.requests and not daemon.sum.fallbacks:
        said.append("No rank has reported yet: ranks report after each graph." if daemon.graphs else _NO_GRAPH)
    elif daemon.ranks < daemon.world_size:
        said.append(f"{daemon.ranks} of {daemon.world_size} ranks came to this daemon.")
    return _report(daemon.job, daemon.sum, daemon.ranks, daemon.world_size, daemon, said)


def _report(job: str, total: RankStats, seen: int, world: int, daemon: JobSummary | None, said: list[str]) -> RunReport:
    keys = len(set(total.keys))
    compiles = total.led
    if daemon is not None:
        compiles = max(daemon.compiles, total.led)
        if daemon.compiles < total.led:
            said.append("The daemon was restarted while the job ran; compiles are counted from the ranks' reports.")
    return RunReport(
        job=job,
        ranks=seen,
        world_size=world,
        graphs=keys if daemon is None else max(keys, daemon.graphs),
        requests=total.requests,
        compiles=compiles,
        hits=total.hits,
        joined=total.joined,
        led=total.led,
        saved_seconds=round(total.saved_seconds, 3),
        wait_seconds=round(total.wait_seconds, 3),
        load_seconds=round(total.load_seconds, 3),
        local_compile_seconds=round(total.local_compile_seconds, 3),
        fallbacks=_most_first(total.fallbacks),
        regions=_most_first(total.regions),
        whole_graphs=_most_first(total.whole_graphs),
        region_pieces=total.region_pieces,
        region_distinct=total.region_distinct,
        remote_caches=_most_first(rank_stats.bounded(total).remote_caches),
        notes=tuple(said),
    )


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def as_text(report: RunReport) -> list[str]:
    """The report for people, line by line."""
    counts = f"{words.count(report.ranks, 'rank')}, {words.count(report.graphs, 'distinct graph')}"
    lines = [f"inductord: job {words.plain(report.job)}: {counts if report.ranks else 'nothing to report'}"]
    if report.requests:
        lines += [
            f"  requests   {report.requests}: {report.compiles} compiled, {report.joined} joined a running compile, "
            f"{report.hits} found stored",
            f"  saved      {words.duration(report.saved_seconds)} of compiling, summed over the ranks "
            f"(they waited {words.duration(report.wait_seconds)})",
        ]
    if regions := regions_in_words(report):
        lines.append(f"  regions    {regions}")
    if caches := caches_in_words(report):
        lines.append(f"  caches     {caches}")
    total = sum(report.fallbacks.values())
    if total:
        local = words.duration(report.local_compile_seconds)
        lines.append(f"  fallbacks  {words.count(total, 'graph')} compiled by the ranks themselves, in {local}:")
        lines += [
            f"    {number:>5} × {words.plain(reason)}: {phrase(reason)}" for reason, number in report.fallbacks.items()
        ]
    elif report.requests:
        lines.append("  fallbacks  none")
    for note in report.notes:
        lines += textwrap.wrap(
            note,
            _WIDTH,
            initial_indent="  note       ",
            subsequent_indent=" " * 13,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def caches_in_words(report: RunReport) -> str:
    """What became of entries of PyTorch's remote caches; empty when ranks asked for none."""
    by_cache: dict[str, list[str]] = {}
    for what, number in report.remote_caches.items():
        cache, _, result = what.partition(" ")
        by_cache.setdefault(cache, []).append(f"{number} {words.plain(result)}".rstrip())
    said = [f"{words.plain(cache)} {', '.join(counts)}" for cache, counts in by_cache.items()]
    if said and report.ranks > 1:
        said.append("summed over the ranks")
    return "; ".join(said)


def regions_in_words(report: RunReport) -> str:
    """What became of graphs where regions were on; empty when there are none: off is what the user wants."""
    cut, whole = report.regions.get(RegionResult.COMPOSED, 0), sum(report.whole_graphs.values())
    said = []
    if cut:
        pieces = f"{words.count(report.region_pieces, 'piece')}, {report.region_distinct} distinct"
        said.append(f"{words.count(cut, 'graph')} cut into {pieces}")
    if whole:
        reasons = ", ".join(f"{number} × {words.plain(reason)}" for reason, number in report.whole_graphs.items())
        said.append(f"{words.count(whole, 'graph')} compiled whole ({reasons})")
    if said and report.ranks > 1:
        said.append("summed over the ranks")
    return "; ".join(said)
