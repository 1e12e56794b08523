"""The table of metrics in the documentation, made from the families themselves so that it cannot drift from them.

``docs/tables.py`` writes it into ``docs/metrics.md``.
"""

import itertools

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from inductord.daemon.metrics.families import Metrics
from inductord.daemon.metrics.live import described
from inductord.daemon.metrics.ray import RayMetrics

_MOST_VALUES = 10
# Part of how a histogram is written down, not of what it says.
_BUCKET = "le"


def families() -> list[Metric]:
    """Every family that a daemon of this release exports, but those of the process itself."""
    registry = CollectorRegistry()
    Metrics(registry)
    RayMetrics(registry)
    return sorted(itertools.chain(registry.collect(), described()), key=lambda family: family.name)


def table() -> str:
    """Name, type, labels and help of every metric, as Markdown."""
    rows = ["| metric | type | labels | what it says |", "| --- | --- | --- | --- |"]
    rows += (
        f"| `{_exported_name(family)}` | {family.type} | {_labels(family)} | {family.documentation} |"
        for family in families()
    )
    return "\n".join(rows) + "\n"


def _exported_name(family: Metric) -> str:
    return family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")


def _labels(family: Metric) -> str:
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != _BUCKET:
                values.setdefault(label, {})[value] = None
    return "; ".join(
        f"`{label}`: {', '.join(found)}" if 1 < len(found) <= _MOST_VALUES else f"`{label}`"
        for label, found in values.items()
    )
