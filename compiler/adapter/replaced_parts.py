"""What a job has put in the place of Inductor's own parts or beside them: lowerings of operators, patterns that passes replace,
code generators of devices, functions that sift the kernels to choose from or hear how fast they were.

They decide the generated code, no key has them, and a worker does not. PyTorch's tables are compared with what they held when
inductord came into the process; what somebody registered before is known by where its functions are written, and operators
that somebody kept from being lowered by PyTorch's sources, which name those that PyTorch keeps.
"""

import functools
import inspect
import itertools
import operator
import re
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch._inductor import lowering as _lowering
from torch._inductor import select_algorithm as _select_algorithm
from torch._inductor.codegen import common as _common
from torch._inductor.fx_passes import joint_graph as _joint_graph
from torch._inductor.fx_passes import post_grad as _post_grad

from inductord.compiler.adapter.nodes import all_nodes

_FALLBACK = f"{_lowering.fallback_handler.__qualname__}."
_BEFORE: dict[Any, Any] = dict(_lowering.lowerings)


def found() -> list[str]:
    """All of them, as names that are equal in processes that did the same."""
    patterns = [*patterns_of_joint_graphs(), *_patterns(*_post_grad.pass_patterns)]
    return sorted([*map(str, _lowered()), *_generators(), *_on_choices(), *(f"pattern {name}" for name in patterns)])


def patterns_of_joint_graphs() -> list[str]:
    """What ends the patterns of the job that had their effect before a graph comes to Inductor."""
    return _patterns(_joint_graph.early_patterns, *_joint_graph.pass_patterns)


def deciding(gm: torch.fx.GraphModule) -> str | None:
    """In words, one that may decide about this graph; None if there is none."""
    if generators := _generators():
        return f"the code generator of {generators[0]}"
    if functions := _on_choices():
        return f"the function {functions[0]} on choices of kernels"
    # Those of the joint graph had their effect before the graph came here.
    if patterns := _patterns(*_post_grad.pass_patterns):
        return f"a pattern of {patterns[0]}"
    lowered = _lowered()
    if not lowered:
        return None
    # Inductor's passes turn operators into others of PyTorch, so the graph does not say which of these it will need.
    called = {node.target for node in all_nodes(gm)}
    for target in lowered:
        if target in called or _namespace(target) in _namespaces():
            return f"the lowering of {target}"
    return None


def _generators() -> list[str]:
    parts = _common.device_codegens.items()
    own = [device for device, own in parts if _foreign((own.scheduling, own.wrapper_codegen))]
    return [*own, *(device for device, added in _common.custom_backend_passes.items() if added is not None)]


def _on_choices() -> list[str]:
    selector = _select_algorithm._ALGORITHM_SELECTOR_CACHE  # made when it is first asked
    if selector is None:
        return []
    return [each.__qualname__ for each in (*selector.preprocessing_fns, *selector.feedback_saver_fns) if _foreign(each)]


def _patterns(*tables: Any) -> list[str]:
    """What ends the patterns of the job in these tables."""
    return [
        str(target)
        for table in tables
        for (_, target), entries in table.patterns.items()
        if any(map(_is_foreign_pattern, entries))
    ]


# Asked for each graph. An entry is held, or its number might become another's.
_judged: dict[int, tuple[Any, bool]] = {}


def _is_foreign_pattern(entry: Any) -> bool:
    if id(entry) not in _judged:
        _judged[id(entry)] = entry, _foreign(tuple(vars(entry).values()))
    return _judged[id(entry)][1]


def _lowered() -> list[Any]:
    """Operators whose lowering is the job's."""
    now = _lowering.lowerings
    changed: list[Any] = []
    added: Iterable[tuple[Any, Any]] = itertools.islice(now.items(), len(_BEFORE), None)
    # Asked for each graph, so not with two thousand look-ups: tables keep their order.
    if len(now) < len(_BEFORE) or not all(map(operator.is_, _BEFORE.values(), now.values())):
        changed = [target for target, handler in _BEFORE.items() if now.get(target) is not handler]
        added = (item for item in now.items() if item[0] not in _BEFORE)
    new = [target for target, handler in added if not (_is_fallback(handler) or _comes_late(handler))]
    # Those for users are a table of their own from torch 2.12 on.
    return [*changed, *new, *_foreign_before(), *_kept_before(), *getattr(_lowering, "user_lowerings", ())]


@functools.cache
def _foreign_before() -> tuple[Any, ...]:
    return tuple(target for target, handler in _BEFORE.items() if _foreign(handler))


_MAKES_FALLBACK = re.compile(r"\bmake_fallback\(\s*(aten\.\w+(?:\.\w+)?)")
_NAMES = re.compile(r"\baten\.\w+")


@functools.cache
def _kept_before() -> tuple[Any, ...]:
    """Operators that Inductor's sources lower and do not keep from it, and that are kept from it all the same. What they name
    nowhere is compiled the same whoever kept it: Inductor itself does, when it meets one."""
    folder = Path(_lowering.__file__).parent
    sources = [folder / "lowering.py", folder / "quantized_lowerings.py", *(folder / "kernel").rglob("*.py")]
    text = "".join(source.read_text() for source in sources)
    lowered, kept = set(_NAMES.findall(text)), set(_MAKES_FALLBACK.findall(text))
    found: list[Any] = []
    for target, handler in _BEFORE.items():
        name = str(getattr(target, "overloadpacket", target))
        if _is_fallback(handler) and name in lowered and kept.isdisjoint({name, str(target)}):
            found.append(target)
    return tuple(found)


@functools.cache
def _namespaces() -> frozenset[str]:
    """Those of the operators that PyTorch lowers by itself."""
    return frozenset(_namespace(target) for target in _BEFORE.keys() - set(_foreign_before()))


def _namespace(target: Any) -> str:
    return str(getattr(target, "namespace", target.__module__))


def _is_fallback(handler: Any) -> bool:
    """Inductor makes these for operators that it does not know, when it first meets them."""
    return getattr(handler, "__qualname__", "").startswith(_FALLBACK)


def _comes_late(handler: Any) -> bool:
    """Whether a module of Inductor brings it, that may be imported after its table of lowerings, or import that first."""
    module = str(getattr(inspect.unwrap(handler), "__module__", ""))
    return module.startswith("torch._inductor.") and module != _lowering.__name__ and not _foreign(handler)


def _foreign(part: Any, seen: set[int] | None = None) -> bool:
    """Whether something in it is written outside of PyTorch: a class, a function or what a function was made with."""
    seen = set() if seen is None else seen
    if id(part) in seen:
        return False
    seen.add(id(part))
    if isinstance(part, type):
        return not of_torch(part.__module__)
    if isinstance(part, types.FunctionType):
        # One that was generated is of no module; PyTorch makes such for patterns.
        return not of_torch(part.__globals__.get("__name__", "torch")) or _foreign(_closure(part), seen)
    if isinstance(part, functools.partial):
        part = (part.func, *part.args, *part.keywords.values())
    elif isinstance(part, types.MethodType):
        part = (part.__func__, part.__self__)
    return isinstance(part, tuple) and any(_foreign(one, seen) for one in part)


def _closure(function: types.FunctionType) -> tuple[Any, ...]:
    return tuple(cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType())


def of_torch(module: str) -> bool:
    """Whether a module of this name is PyTorch's."""
    return module.split(".")[0] == "torch"
