"""Objects that a graph only hands on, such as device meshes, process groups and those of users (PyTorch: opaque objects of
reference type).

The rank's own object stays with the rank: it comes into the graph as an input. A worker compiles with an empty one in its
place, so that what it generates cannot depend on what is inside, and neither does the key.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._library import opaque_object as _opaque
from torch._library.fake_class_registry import FakeScriptObject

# torch 2.14 renamed it, and warns of the old name.
_is_reference_type: Callable[[type], bool] = (
    getattr(_opaque, "is_opaque_symbolic_type", None) or _opaque.is_opaque_reference_type
)


def class_name(value: object) -> str | None:
    """The registered name of the class of such an object, as it stands in a graph that is compiled; None for everything
    else."""
    if type(value) is not FakeScriptObject:
        return None
    held = object.__getattribute__(value, "real_obj")
    if held is not None and not _is_reference_type(type(held)):
        return None
    name: str = object.__getattribute__(value, "script_class_name")
    return name


def empty(name: str) -> FakeScriptObject:
    """Stands on the worker for an object of the class ``name``."""
    return FakeScriptObject(None, name, None)


def held_by(gm: torch.fx.GraphModule) -> str | None:
    """The class of such an object that the graph holds as a constant rather than takes as an input; None when it has none."""
    return next((name for graph in gm.modules() for value in vars(graph).values() if (name := _name(value))), None)


def _name(value: Any) -> str | None:
    if name := class_name(value):
        return name
    held = type(value)
    return held.__qualname__ if _is_reference_type(held) else None
