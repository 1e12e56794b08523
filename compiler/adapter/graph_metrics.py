"""Those of Inductor's metrics (``torch._inductor.metrics``) that PyTorch's own entries of its cache of graphs leave out, on
their way with a graph: a rank that loads it has counted what one that compiles it would have."""

import contextlib
from collections.abc import Generator
from typing import Any

from torch._inductor import metrics as _metrics

_LISTS = ("cpp_outer_loop_fused_inner_counts",)
"""Metrics that are lists, of which nothing belongs to the process that compiled."""

_ATTRIBUTE = "_inductord_metrics"


def _now() -> dict[str, Any]:
    ours = vars(_metrics).keys() - set(_metrics.get_metric_fields())
    counts = {name: value for name in ours if type(value := getattr(_metrics, name)) is int}
    return counts | {name: list(getattr(_metrics, name)) for name in _LISTS}


@contextlib.contextmanager
def counted() -> Generator[dict[str, Any]]:
    """Gives, when it ends, what the block added to each: numbers, and the new elements of lists."""
    added: dict[str, Any] = {}
    before = _now()
    yield added
    for name, value in _now().items():
        added[name] = value[len(before[name]) :] if name in _LISTS else value - before[name]


def note(graph: Any, added: dict[str, Any]) -> None:
    """Have a compiled graph carry them."""
    setattr(graph, _ATTRIBUTE, added)


def count(graph: Any) -> None:
    """Count for this process what a graph that was loaded carries."""
    for name, added in vars(graph).pop(_ATTRIBUTE, {}).items():
        if hasattr(_metrics, name):
            setattr(_metrics, name, getattr(_metrics, name) + added)
