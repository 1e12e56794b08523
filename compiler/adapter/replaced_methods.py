"""Methods of Inductor's graph lowering and scheduler that a job has put others in the place of.

They decide the generated code, no key has them, and a worker does not. The classes are compared with what they were when
inductord came to serve graphs; what was replaced before is known by where it is written.
"""

from collections.abc import Mapping
from typing import Any

from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import Scheduler

from inductord.compiler.adapter.replaced_parts import of_torch

_CALLED_ON_A_HIT = frozenset({"save_output_code"})
"""PyTorch calls these with code that comes from a cache, too, and replaces them itself to show code."""


def _methods(cls: type) -> Mapping[str, Any]:
    return {name: value for name, value in vars(cls).items() if callable(value) and name not in _CALLED_ON_A_HIT}


_BEFORE = {cls: _methods(cls) for cls in (GraphLowering, Scheduler)}


def found() -> list[str]:
    """Their names, as ``Scheduler.__init__``."""
    return [
        f"{cls.__name__}.{name}"
        for cls, methods in _BEFORE.items()
        for name, method in methods.items()
        if vars(cls).get(name) is not method or not of_torch(str(getattr(method, "__module__", "torch")))
    ]
