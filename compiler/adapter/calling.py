"""Calls of compiled graphs, many in a row, as a composed graph makes them.

``CompiledFxGraph.__call__`` (torch/_inductor/output_code.py) does a little around each call: it names the graph to a profiler,
keeps an order of graphs for debuggers, and ends accounts that the first call fills. For one graph that is nothing; a step of a
composed graph has a hundred calls and more.
"""

from collections.abc import Callable
from typing import Any

from torch._inductor import debug as _debug
from torch.autograd import profiler as _profiler


def watched() -> bool:
    """Whether somebody wants to see each call."""
    return bool(_profiler._is_profiler_enabled or getattr(_debug, "RECORD_GRAPH_EXECUTION", False))


def directly(compiled: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """What a compiled graph that was called before runs; whatever is no such graph is as it is."""
    if getattr(compiled, "_wrap_compiled_regions", False):
        return compiled
    return getattr(compiled, "current_callable", None) or compiled
