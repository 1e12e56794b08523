"""Arithmetic with what ranks report: bounds, differences, sums. Pure; ranks are clients, so nothing they say is believed."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from inductord.compiler.reasons import Fallback
from inductord.compiler.regions.reasons import RegionResult, WholeReason
from inductord.compiler.remote_caches import CacheResult, RemoteCache
from inductord.v1.compiler_pb2 import RankStats

OTHER = "other"

COUNTERS = (
    "requests",
    "hits",
    "joined",
    "led",
    "artifact_bytes",
    "graph_bytes",
    "first_launches",
    "recompiles",
    "guard_failures",
    "region_pieces",
    "region_distinct",
)
SECONDS = (
    "wait_seconds",
    "load_seconds",
    "key_seconds",
    "serialize_seconds",
    "local_compile_seconds",
    "saved_seconds",
    "dynamo_seconds",
    "aot_seconds",
    "first_launch_seconds",
)
BY_LABEL: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "fallbacks": frozenset(Fallback),
        "regions": frozenset(RegionResult),
        "whole_graphs": frozenset(WholeReason),
        "remote_caches": frozenset(f"{cache} {result}" for cache in (*RemoteCache, OTHER) for result in CacheResult),
    }
)
"""Counts by label, each with its closed set."""

PHASES: Mapping[str, str] = MappingProxyType(
    {
        "dynamo": "dynamo_seconds",
        "aot": "aot_seconds",
        "key": "key_seconds",
        "serialize": "serialize_seconds",
        "wait": "wait_seconds",
        "load": "load_seconds",
        "launch": "first_launch_seconds",
        "local": "local_compile_seconds",
    }
)
"""Phases of a rank's compiling, and where a report has their seconds. A rank serialises while it waits; all others exclude
each other."""

_MOST = (1 << 64) - 1


def bounded(stats: RankStats) -> RankStats:
    """The numbers alone, with unknown labels under ``other``."""
    kept = RankStats()
    for name in (*COUNTERS, *SECONDS):
        setattr(kept, name, getattr(stats, name))
    for field, known in BY_LABEL.items():
        counts = getattr(kept, field)
        for label, count in getattr(stats, field).items():
            label = _known(label, known)
            counts[label] = min(counts[label] + count, _MOST)
    return kept


def _known(label: str, known: frozenset[str]) -> str:
    """A label of the closed set. PyTorch names some caches by a digest; what became of their entries is known all the same."""
    if label in known:
        return label
    general = f"{OTHER} {label.rpartition(' ')[2]}"
    return general if general in known else OTHER


def difference(now: RankStats, before: RankStats) -> RankStats:
    """What ``now`` has beyond ``before``. Reports may overtake each other; what seems to go back is an old one."""
    new = RankStats()
    for name in (*COUNTERS, *SECONDS):
        setattr(new, name, max(getattr(now, name) - getattr(before, name), 0))
    for field in BY_LABEL:
        known = getattr(before, field)
        for label, count in getattr(now, field).items():
            if count > known.get(label, 0):
                getattr(new, field)[label] = count - known.get(label, 0)
    return new


def total(reports: Iterable[RankStats]) -> RankStats:
    """The sum, without keys."""
    result = RankStats()
    for stats in reports:
        for name in COUNTERS:
            setattr(result, name, min(getattr(result, name) + getattr(stats, name), _MOST))
        for name in SECONDS:
            setattr(result, name, getattr(result, name) + getattr(stats, name))
        for field in BY_LABEL:
            counts = getattr(result, field)
            for label, count in getattr(stats, field).items():
                counts[label] = min(counts[label] + count, _MOST)
    return result


def phase_seconds(stats: RankStats) -> tuple[float, ...]:
    """Seconds by phase, in the order of `PHASES`."""
    return tuple(getattr(stats, field) for field in PHASES.values())
