"""Objects of classes that a job registered with PyTorch as opaque: graphs take them without looking into them.

Of reference type (device meshes, process groups, a user's own): a graph only hands them on. The rank's own object stays with
the rank: it comes into the graph as an input. A worker compiles with an empty one in its place, so that what it generates
cannot depend on what is inside, and neither does the key.

Of value type, unless their class says ``hoist``: they stand in the graph as constants, told in words (``__fx_repr__``). A
worker needs no module of the job: one that stands in tells the same words. The rank loads compiled code with its own classes.
"""

import dataclasses
import functools
import importlib
import operator
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._library import opaque_object as _opaque
from torch._library.fake_class_registry import FakeScriptObject
from torch._opaque_base import OpaqueBase

# torch 2.14 renamed all of them, and warns of the old names.
_is_reference_type: Callable[[type], bool] = (
    getattr(_opaque, "is_opaque_symbolic_type", None) or _opaque.is_opaque_reference_type
)
_is_value_type: Callable[[type], bool] = (
    getattr(_opaque, "is_opaque_constant_type", None) or _opaque.is_opaque_value_type
)


def _register_value_type(kind: type) -> None:
    if register := getattr(_opaque, "register_custom_class", None):
        register(kind, typ="constant")
    else:
        _opaque.register_opaque_type(kind, typ="value")


def reduced(value: object) -> Any:
    """What pickle writes of such an object, the same in every process that has the graph; None for everything else."""
    if name := class_name(value):
        return empty, (name,)
    kind: Any = type(value)
    if not (_is_of_the_job(kind) and _is_value_type(kind)):
        return None
    text, classes = _opaque.get_opaque_obj_repr(value)
    return standing_in, (
        Class.of(kind),
        text,
        tuple((name, Class.of(each)) for name, each in sorted(classes.items())),
    )


def class_name(value: object) -> str | None:
    """The registered name of the class of such an object that is handed on, as it stands in a graph that is compiled; None for
    everything else."""
    if type(value) is not FakeScriptObject:
        return None
    held = object.__getattribute__(value, "real_obj")
    if held is not None and not (_is_reference_type(type(held)) or _is_handed_on(type(held))):
        return None
    name: str = object.__getattribute__(value, "script_class_name")
    return name


def _is_handed_on(kind: type) -> bool:
    """Whether objects of this value type come into graphs as those of reference type do: the job asked for that."""
    return bool(_opaque.should_hoist(kind)) and not _opaque.has_members(kind)


def empty(name: str) -> FakeScriptObject:
    """Stands on the worker for an object that is handed on, of the class ``name``."""
    return FakeScriptObject(None, name, None)


def held_by(gm: torch.fx.GraphModule) -> str | None:
    """The class of such an object that the graph holds as a constant rather than takes as an input; None when it has none."""
    return next((name for graph in gm.modules() for value in vars(graph).values() if (name := _name(value))), None)


def _name(value: Any) -> str | None:
    if name := class_name(value):
        return name
    held = type(value)
    return held.__qualname__ if _is_reference_type(held) else None


# How PyTorch writes the type in a schema, and how it wants to be told.
_WRITTEN, _TOLD = re.compile(r"\bPyObject\b"), "inductord.Opaque"


def declarable(schema: str) -> str:
    """A schema as PyTorch takes it from somebody who does not have the classes in it."""
    if not _WRITTEN.search(schema):
        return schema
    if not torch._C._is_opaque_type_registered(_TOLD):
        torch._C._register_opaque_type(_TOLD)
    return _WRITTEN.sub(_TOLD, schema)


@dataclasses.dataclass(frozen=True, slots=True)
class Class:
    """A class by its name."""

    module: str
    name: str

    @classmethod
    def of(cls, kind: type) -> "Class":
        """The name of a class."""
        return cls(kind.__module__, kind.__qualname__)

    def __reduce__(self) -> tuple[Any, ...]:
        return Class, (self.module, self.name)

    def found(self) -> Any:
        """The class.

        Raises:
            ImportError: this process has no such module.
            AttributeError: the module has no such class.
        """
        return operator.attrgetter(self.name)(importlib.import_module(self.module))


@functools.cache
def _is_of_the_job(kind: Any) -> bool:
    """Whether a worker may not have this class."""
    first = kind.__module__.split(".")[0]
    return first != "torch" and first not in sys.stdlib_module_names


class _ByName:
    """A class as it is shipped: found again where it is unpickled."""

    def __init__(self, kind: type) -> None:
        self._named = Class.of(kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return Class.found, (self._named,)


def by_name(classes: Mapping[str, type]) -> dict[str, Any]:
    """Classes that code uses, by the names that it has for them, as they are shipped."""
    return {name: _ByName(kind) for name, kind in classes.items()}


def standing_in(kind: Class, text: str, classes: tuple[tuple[str, Class], ...]) -> Any:
    """An object of value type on the worker: itself, where the worker has its classes.

    Args:
        kind: its class.
        text: what it is, as an expression of Python.
        classes: the names in ``text``.
    """
    known = {name: _class(each) for name, each in classes}
    own = _class(kind)
    return own(text, known) if issubclass(own, _StandIn) else eval(text, known)


def _class(named: Class) -> Any:
    try:
        return named.found()
    except (ImportError, AttributeError):
        made = _stand_in_class(named)
    # Where PyTorch looks for it when it writes a graph.
    holder: Any = sys.modules.get(named.module)
    if holder is None:
        holder = sys.modules[named.module] = _modules[named.module] = types.ModuleType(named.module)
    setattr(holder, named.name, made)
    _placed.append((holder, named.name))
    return made


_modules: dict[str, types.ModuleType] = {}
"""Those that hold nothing but what stands in."""

_placed: list[tuple[types.ModuleType, str]] = []
"""What stands in: the module that it was put into, and its name there."""


def forget() -> None:
    """Remove what stood in: the next job may bring modules and classes of the same names that workers have."""
    for holder, name in _placed:
        vars(holder).pop(name, None)
    _placed.clear()
    for name, module in _modules.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    _modules.clear()


class _StandIn(OpaqueBase):
    """Tells of an object what the rank told."""

    def __init__(self, text: str, classes: dict[str, type]) -> None:
        self._text, self._classes = text, classes

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return self._text

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return self._text, self._classes


@functools.cache
def _stand_in_class(named: Class) -> type[_StandIn]:
    """Has the name of the job's."""
    name = named.name.rpartition(".")[2]
    made = type(name, (_StandIn,), {"__module__": named.module, "__qualname__": named.name})
    _register_value_type(made)
    return made
