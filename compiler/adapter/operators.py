"""Operators that somebody registered, such as those of ``torch.library``: described on the rank, declared on a worker that
does not have them.

Inductor calls such an operator as it is. All that it asks of one is its schema, its tags, whether a call may be left out when
nobody uses what it returns, or be moved past another, and the shapes of that, which the rank noted in the graph. So a worker
needs the declaration only; the code stays with the job.
"""

import contextlib
import dataclasses
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from typing import Any

import torch
from torch._higher_order_ops import effects as _effects
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import node as _fx_node
from torch.fx.experimental import symbolic_shapes as _shapes
from torch.utils import _pytree as pytree

from inductord.compiler.adapter import opaque, schema
from inductord.compiler.adapter.nodes import all_nodes
from inductord.compiler.adapter.tracing import is_nested_int


class NotDeclarable(Exception):
    """The operator's own code is needed to compile with it."""


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Description:
    """``schema``: with namespace, as PyTorch writes it; ``tags``: names of ``torch.Tag``, sorted; ``side_effect``: whether the
    job said so (``torch.fx.node.has_side_effect``); ``effect``: the name of the ``EffectType`` that it has for
    ``torch._higher_order_ops.effects``, empty without one."""

    namespace: str
    name: str
    overload: str
    schema: str
    tags: tuple[str, ...]
    side_effect: bool
    effect: str


class Described(tuple[Description, ...]):
    """The operators of a graph, sorted. Where it is unpickled, those that are missing are declared."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _declare, (tuple(self),)


def describe(gm: torch.fx.GraphModule) -> Described:
    """The operators in a graph and in the graphs within it that are not PyTorch's own."""
    custom = {op for op in _operators(gm) if schema.is_custom(op)}
    return Described(sorted({_description(op) for called in custom for op in (called, *_out_variants(called))}))


def _operators(gm: torch.fx.GraphModule) -> Iterator[torch._ops.OpOverload]:
    for node in all_nodes(gm):
        # Operators that write into arguments are arguments of the one that makes them functional. Kernels are named after the
        # operators that decompositions began with.
        others = pytree.tree_leaves((node.args, node.kwargs))
        for value in (node.target, node.meta.get("original_aten"), *others):
            if isinstance(value, torch._ops.OpOverload):
                yield value


_OUT = frozenset({"out", "out_variant"})
"""Names of one tag, in different releases."""


def _out_variants(op: torch._ops.OpOverload) -> Iterator[torch._ops.OpOverload]:
    """What Inductor may call in an operator's place, with memory of its own choice."""
    packet = op.overloadpacket
    for overload in (getattr(packet, name) for name in packet.overloads()):
        if not _OUT.isdisjoint(tag.name for tag in overload.tags):
            yield overload


def _description(op: torch._ops.OpOverload) -> Description:
    name = op._schema.name.split("::")[1]
    tags = tuple(sorted(tag.name for tag in op.tags))
    return Description(op.namespace, name, op._overloadname, str(op._schema), tags, _has_side_effect(op), _effect(op))


def _has_side_effect(op: torch._ops.OpOverload) -> bool:
    # By name: a graph may also hold what its name meant before it was defined anew.
    return not {str(op), str(op.overloadpacket)}.isdisjoint(map(str, _fx_node._side_effectful_functions))


def _effect(op: torch._ops.OpOverload) -> str:
    effect = _effects._get_effect(op)
    return "" if effect is None else effect.name


@dataclasses.dataclass(frozen=True, slots=True)
class _Noted:
    """``result``: as the rank saw it; ``sizes``: the sympy symbols in it that the operator itself made. Only running it tells
    their values."""

    result: Any
    sizes: frozenset[Any]


_declared: list[torch.library.Library] = []
_with_side_effect: set[torch._ops.OpOverload] = set()
_with_effect: list[Any] = []
_noted: dict[tuple[object, ...], _Noted] = {}
"""What operators return, by operator and arguments."""
_told: list[_Noted] = []
"""What the call that is looked at returns; else empty."""


@contextlib.contextmanager
def scope() -> Generator[None]:
    """What is declared inside is gone afterwards: the next job may have an operator of the same name. One at a time."""
    try:
        yield
    finally:
        for registration in _with_effect:
            registration.destroy()
        for library in reversed(_declared):
            library._destroy()
        _fx_node._side_effectful_functions.difference_update(_with_side_effect)
        for kept in (_declared, _with_side_effect, _with_effect, _noted):
            kept.clear()
        opaque.forget()


def _declare(descriptions: tuple[Description, ...]) -> Described:
    """Declare the operators that this process does not have."""
    for description in descriptions:
        if not _is_known(description):
            _declare_one(description)
        op = _named(description)
        if description.side_effect and not _has_side_effect(op):
            _with_side_effect.add(op)
            _fx_node.has_side_effect(op)
        if description.effect != _effect(op):
            effect = getattr(_effects._EffectType, description.effect) if description.effect else None
            _with_effect.append(_effects._register_effectful_op(op, effect))
    return Described(descriptions)


def _named(description: Description) -> torch._ops.OpOverload:
    packet = getattr(getattr(torch.ops, description.namespace), description.name)
    op: torch._ops.OpOverload = getattr(packet, description.overload)
    return op


def _is_known(description: Description) -> bool:
    packet = getattr(getattr(torch.ops, description.namespace), description.name, None)
    return packet is not None and description.overload in packet.overloads()


def _declare_one(description: Description) -> None:
    library = torch.library.Library(description.namespace, "FRAGMENT")
    _declared.append(library)
    tags = tuple(getattr(torch.Tag, tag) for tag in description.tags)
    library.define(opaque.declarable(description.schema.removeprefix(f"{description.namespace}::")), tags=tags)
    op = _named(description)

    def as_noted(*args: Any, **kwargs: Any) -> Any:
        return _returned(op, args, kwargs)

    torch.library.register_fake(op._name, as_noted, lib=library)


def note(gm: torch.fx.GraphModule, fake_mode: FakeTensorMode) -> None:
    """Remember what operators that were declared return in this graph, for as long as they are declared."""
    if not _declared:
        return
    for node in all_nodes(gm):
        if "val" not in node.meta:
            continue
        op: Any = node.target
        value = node.meta["val"]
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda used: used.meta.get("val"))
        if isinstance(op, torch._ops.OpOverload) and schema.is_custom(op):
            _noted[_call(op, args, kwargs)] = _Noted(value, _own_sizes(value, args, kwargs))
        elif schema.is_higher_order(op) and op.__name__ in _RESULTS_FROM:
            _note_within(op, args, kwargs, value, fake_mode)


def _own_sizes(result: Any, *given: Any) -> frozenset[Any]:
    return frozenset(_sizes_in(result) - _sizes_in(given))


def _sizes_in(values: Any) -> Set[Any]:
    numbers: list[Any] = []
    for leaf in pytree.tree_leaves(values):
        numbers += (*leaf.shape, *leaf.stride()) if isinstance(leaf, torch.Tensor) else [leaf]
    symbolic = (number.node for number in numbers if isinstance(number, torch.SymInt) and not is_nested_int(number))
    return {renamed for node in symbolic for renamed in _own_names(node).values()}


def _own_names(node: Any) -> dict[Any, Any]:
    """The symbols in a number whose values only running the graph tells, each with the name that the graph has for it. What is
    known of their values is left aside: an operator knows nothing of it."""
    names = node.shape_env.unbacked_renamings
    return {symbol: names.get(symbol, symbol) for symbol in _shapes.free_unbacked_symbols(node._expr)}


_RESULTS_FROM = {"auto_functionalized": 0, "auto_functionalized_v2": 0, "with_effects": 1}
"""Operators that call the operator among their arguments; where in what they return is what that returned."""


def _note_within(
    outer: Any, args: Sequence[Any], kwargs: Mapping[str, Any], value: Any, fake_mode: FakeTensorMode
) -> None:
    op = next((argument for argument in args if isinstance(argument, torch._ops.OperatorBase)), None)
    if not (isinstance(op, torch._ops.OpOverload) and schema.is_custom(op)):
        return
    first, count = _RESULTS_FROM[outer.__name__], len(op._schema.returns)
    results = tuple(value[first : first + count])
    # With what arguments the outer one calls it shows when it does.
    _told.append(_Noted(results[0] if count == 1 else results, _own_sizes(results, args, kwargs)))
    try:
        with fake_mode:
            outer(*args, **kwargs)
    finally:
        _told.clear()


def _call(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[object, ...]:
    """What decides about the results of a call: the operator, shapes, strides and types of tensors, other values."""
    arguments = op._schema.arguments
    values = {argument.name: argument.default_value for argument in arguments}
    values |= {argument.name: value for argument, value in zip(arguments, args, strict=False)}
    return (str(op), *map(_description_of, pytree.tree_leaves(values | dict(kwargs))))


def _description_of(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {value.device} {tuple(value.shape)} {value.stride()}"
    return repr(value)


def _returned(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Tensors like those that the rank noted for such a call."""
    if not op._schema.returns:
        return None
    call = _call(op, args, kwargs)
    if _told:
        _noted[call] = _told[0]
        return _told[0].result
    if call not in _noted:
        raise NotDeclarable(
            f"what {op} returns for these arguments is noted nowhere in the graph; its own code has to say"
        )
    return _like(_noted[call])


def _like(noted: _Noted) -> Any:
    """Such a result anew, with new symbols for the sizes that the operator made: each call makes its own, and PyTorch finds out
    which of the graph's they are."""
    made: dict[Any, Any] = {}

    def size(value: Any) -> Any:
        """A size or stride of the new result."""
        if not isinstance(value, torch.SymInt) or is_nested_int(value):
            return value
        own = {symbol: name for symbol, name in _own_names(value.node).items() if name in noted.sizes}
        if not own:
            return value
        for name in set(own.values()) - made.keys():
            made[name] = torch.library.get_ctx().new_dynamic_size().node._expr
        expression = value.node._expr.xreplace({symbol: made[name] for symbol, name in own.items()})
        return value.node.shape_env.create_symintnode(expression, hint=None)

    def like(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return size(value)
        shape, strides = map(size, value.shape), map(size, value.stride())
        return torch.empty_strided(tuple(shape), tuple(strides), dtype=value.dtype, device=value.device)

    return pytree.tree_map_only((torch.Tensor, torch.SymInt), like, noted.result)
