"""Methods of Inductor's graph lowering, scheduler and compiled graph that a job has put others in the place of.

They decide the generated code, or hear of it; no key has them, and a worker does not. The classes are compared with what they
were when inductord came to serve graphs; what was replaced before is known by where it is written.
"""

from collections.abc import Mapping
from typing import Any

from torch._inductor.graph import GraphLowering
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.scheduler import Scheduler

from inductord.compiler.adapter.replaced_parts import of_torch

_CALLED_ON_A_HIT = frozenset({"save_output_code"})
"""PyTorch calls these with code that comes from a cache, too, and replaces them itself to show code."""


def _methods(cls: type) -> Mapping[str, Any]:
    return {name: value for name, value in vars(cls).items() if callable(value) and name not in _CALLED_ON_A_HIT}


# Of a compiled graph, its making belongs to the process that compiles; what else it does is asked of each rank.
_BEFORE = {
    GraphLowering: _methods(GraphLowering),
    Scheduler: _methods(Scheduler),
    CompiledFxGraph: {"__init__": CompiledFxGraph.__init__},
}


def found() -> list[str]:
    """Their names, as ``Scheduler.__init__``."""
    return [
        f"{cls.__name__}.{name}"
        for cls, methods in _BEFORE.items()
        for name, method in methods.items()
        if vars(cls).get(name) is not method or not of_torch(str(getattr(method, "__module__", "torch")))
    ]
