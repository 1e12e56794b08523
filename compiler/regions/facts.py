"""What the search needs to know of each node, read from the graph once.

Everything is turned into small integers here, numbered in the order of the graph, so that what follows compares integers and
the result depends on the graph alone. It decides nothing.
"""

import dataclasses
import enum
import operator
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import fx

from inductord.compiler.regions import operators
from inductord.compiler.regions.contexts import Contexts


class Role(enum.Enum):
    """SOURCE: a placeholder, or a ``get_attr`` of a tensor. ATTACHED: free and pure, computed by each piece that needs it.
    BRACKET: enters or leaves an autocast, called by each piece that runs in it. REAL: every other call; only these are
    distributed over the pieces."""

    SOURCE = enum.auto()
    ATTACHED = enum.auto()
    BRACKET = enum.auto()
    REAL = enum.auto()


_UNKNOWN_SIZE = 64  # elements counted for a symbolic dimension: only the order of sizes matters


@dataclasses.dataclass(slots=True)
class Facts:
    """Lists with one entry a node, without the output; nodes are named by their place in these lists.

    ``arguments``: the nodes that it uses, with repeats, in the order of its arguments.
    ``token``: equal for nodes with equal operator, literal arguments, pattern of arguments, and kind of value.
    ``value``: equal for values with equal shape, strides, dtype, device and requires_grad.
    ``storage``: equal for tensors that share memory, -1 for what is no single tensor.
    ``crosses``: whether the value may be handed from piece to piece.
    ``size``: what compiling it costs, in simple operations: with those of the graphs that it calls.
    ``num_bytes``: of the value, 0 for what is no tensor; symbolic sizes count as some number.
    ``materialised``: whether the value is written to memory whatever is fused.
    ``gradient``: whether the value requires a gradient.
    ``written``: the arguments that the node changes.
    ``inside``: whether a context that must stay in one piece is open at the node, or opened or closed by it.
    ``chain``: the nodes that entered the autocasts that are open at the node, the outermost first.

    Of the graph: ``results``, the nodes that it returns, with repeats; ``closed``, by the node that enters an autocast the one
    that leaves it.
    """

    closed: dict[int, int]
    names: list[str] = dataclasses.field(default_factory=list)
    roles: list[Role] = dataclasses.field(default_factory=list)
    arguments: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    token: list[int] = dataclasses.field(default_factory=list)
    value: list[int] = dataclasses.field(default_factory=list)
    storage: list[int] = dataclasses.field(default_factory=list)
    crosses: list[bool] = dataclasses.field(default_factory=list)
    size: list[int] = dataclasses.field(default_factory=list)
    num_bytes: list[int] = dataclasses.field(default_factory=list)
    materialised: list[bool] = dataclasses.field(default_factory=list)
    gradient: list[bool] = dataclasses.field(default_factory=list)
    written: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    inside: list[bool] = dataclasses.field(default_factory=list)
    chain: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    results: list[int] = dataclasses.field(default_factory=list)


def read(graph: fx.GraphModule) -> Facts:
    """Facts of a Dynamo graph. O(nodes + arguments)."""
    return _Reader(graph, _Intern()).read()


class _Intern:
    """Numbers for things, in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._kept: list[object] = []  # what is known by its id must stay alive

    def __call__(self, thing: Hashable) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))

    def identity(self, thing: object) -> int:
        """A number for this very object."""
        key = ("identity", id(thing))
        if key not in self._numbers:
            self._kept.append(thing)
        return self(key)


class _Reader:
    def __init__(self, graph: fx.GraphModule, intern: _Intern) -> None:
        self._graph = graph
        self._intern = intern
        self._place: dict[fx.Node, int] = {}
        self._contexts = Contexts(graph)
        self._operators: dict[object, operators.Operator] = {}
        self._facts = Facts(closed=self._contexts.closed)

    def read(self) -> Facts:
        for node in self._graph.graph.nodes:
            if node.op == "output":
                self._facts.results = [self._place[each] for each in _flat(node.args)]
                continue
            shown = node.meta.get("example_value")
            if node.op == "placeholder":
                self._source(node, shown)
            elif node.op == "get_attr":
                self._attribute(node, shown)
            else:
                self._call(node, shown)
            self._place[node] = len(self._facts.names)
            self._facts.names.append(node.name)
        return self._facts

    def _add(self, role: Role, token: int, shown: Any, value: int, size: int = 0, used: Sequence[fx.Node] = ()) -> None:
        facts = self._facts
        facts.roles.append(role)
        facts.token.append(token)
        facts.value.append(value)
        facts.size.append(size)
        facts.arguments.append(tuple([self._place[each] for each in used]))
        if isinstance(shown, torch.Tensor):
            facts.storage.append(self._storage(shown))
            facts.num_bytes.append(_num_bytes(shown))
            facts.gradient.append(shown.requires_grad)
            facts.crosses.append(True)
        else:
            facts.storage.append(-1)
            facts.num_bytes.append(0)
            facts.gradient.append(False)
            facts.crosses.append(isinstance(shown, _SYMBOLIC))

    def _source(self, node: fx.Node, shown: Any) -> None:
        value = self._intern(self._describe(shown))
        self._add(Role.SOURCE, value, shown, value)
        self._plain(materialised=True)

    def _attribute(self, node: fx.Node, shown: Any) -> None:
        held = operator.attrgetter(str(node.target))(self._graph)
        if isinstance(held, torch.Tensor):
            self._source(node, held if shown is None else shown)
            return
        token = self._intern(("held", self._held(held)))
        self._add(Role.ATTACHED, token, None, token, size=_calls(held))
        self._plain(materialised=False)

    def _plain(self, materialised: bool) -> None:
        facts = self._facts
        facts.materialised.append(materialised)
        facts.written.append(())
        facts.inside.append(False)
        facts.chain.append(())

    def _call(self, node: fx.Node, shown: Any) -> None:
        target: Any = node.target
        if node.op == "call_module":
            target = operator.attrgetter(str(target))(self._graph)
        known = self._operators.get(target)
        if known is None:
            known = self._operators[target] = operators.describe(target)
        used: list[fx.Node] = []
        value = self._intern(self._describe(shown))
        pattern = (
            node.op,
            self._held(target) if node.op == "call_module" else self._literal(target),
            self._template(node.args, used),
            self._template(node.kwargs, used) if node.kwargs else None,
            value,
        )
        bracket = self._contexts.bracket(len(self._facts.names), node, known.name)
        inside = not bracket and self._contexts.covers(node, known.name, shown)
        written = operators.written(node, known)
        size = known.work
        if bracket:
            role, size = Role.BRACKET, 0
        elif not inside and not written and self._is_free(known, shown, used):
            role = Role.ATTACHED
        else:
            role = Role.REAL
            size += sum(self._facts.size[self._place[each]] for each in used if each.op == "get_attr")
        self._add(role, self._intern(pattern), shown, value, size, used)
        item = known.name == "getitem" and self._facts.crosses[self._place[used[0]]] is False
        self._facts.materialised.append(self._facts.materialised[self._place[used[0]]] if item else known.materialised)
        self._facts.written.append(tuple([self._place[each] for each in written]))
        self._facts.inside.append(inside)
        self._facts.chain.append(self._contexts.chain)

    def _is_free(self, known: operators.Operator, shown: Any, used: list[fx.Node]) -> bool:
        """Whether it is a view, arithmetic on sizes, or asks for a size."""
        if not used:
            return False
        tensors = _tensors(shown)
        if tensors:
            if not known.view:
                return False
            base = used[0].meta.get("example_value")
            if not isinstance(base, torch.Tensor) and self._facts.roles[self._place[used[0]]] is not Role.ATTACHED:
                return False  # an item of several results, which stays with them
            storage = self._storage(_tensors(base)[0])
            return all(self._storage(each) == storage for each in tensors)
        if not isinstance(shown, (int, float, bool, tuple, *_SYMBOLIC)):
            return False
        if known.size:
            return True
        places = [self._place[each] for each in used]
        return known.number and all(
            self._facts.storage[each] < 0 and self._facts.roles[each] is not Role.REAL for each in places
        )

    def _storage(self, tensor: torch.Tensor) -> int:
        return self._intern.identity(tensor.untyped_storage() if tensor.layout is torch.strided else tensor)

    def _describe(self, shown: Any) -> Hashable:
        """What makes two values the same kind of input for a compiler."""
        if isinstance(shown, torch.Tensor):
            kind = type(shown).__qualname__
            shape = self._numbers(shown.shape)
            if shown.layout is not torch.strided:
                return (kind, shape, shown.layout, shown.dtype, shown.device, shown.requires_grad)
            strides = self._numbers(shown.stride())
            offset = self._number(shown.storage_offset())
            return (kind, shape, strides, offset, shown.dtype, shown.device, shown.requires_grad)
        if isinstance(shown, tuple | list):
            return (type(shown).__qualname__, tuple(map(self._describe, shown)))
        return self._literal(shown)

    def _numbers(self, numbers: Any) -> tuple[Hashable, ...]:
        return tuple(number if type(number) is int else self._number(number) for number in numbers)

    def _number(self, number: Any) -> Hashable:
        # A symbol must not be compared itself: that would add guards to the job.
        return number if type(number) is int else ("symbol", self._intern(number.node.expr))

    def _template(self, argument: Any, used: list[fx.Node]) -> Hashable:
        """The argument with a mark for each node in it; the nodes go to ``used``, in order."""
        if isinstance(argument, fx.Node):
            used.append(argument)
            return _NODE
        if isinstance(argument, tuple | list):
            return (type(argument) is list, *[self._template(each, used) for each in argument])
        if isinstance(argument, dict):
            return ("dict", *[(key, self._template(each, used)) for key, each in argument.items()])
        if isinstance(argument, slice):
            return ("slice", *[self._template(each, used) for each in (argument.start, argument.stop, argument.step)])
        return self._literal(argument)

    def _literal(self, thing: Any) -> Hashable:
        if thing is None:
            return None
        kind = type(thing)
        if kind in _PLAIN:
            return (kind.__name__, repr(thing))
        if isinstance(thing, _SYMBOLIC):
            return (kind.__name__, self._intern(thing.node.expr))
        return ("object", self._intern.identity(thing))

    def _held(self, held: object) -> Hashable:
        """Structure of a graph that is called; any other object is like itself alone."""
        if not isinstance(held, fx.GraphModule):
            return ("object", self._intern.identity(held))
        inner = _Reader(held, self._intern).read()
        return (tuple(inner.token), tuple(inner.value), tuple(inner.arguments), tuple(inner.results))


_NODE = "%"
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_PLAIN: set[type] = {
    bool,
    int,
    float,
    complex,
    str,
    type(None),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    type(Ellipsis),
}


def _flat(argument: Any) -> list[fx.Node]:
    found: list[fx.Node] = []

    def keep(node: fx.Node) -> fx.Node:
        found.append(node)
        return node

    fx.map_arg(argument, keep)
    return found


def _tensors(shown: Any) -> list[torch.Tensor]:
    if isinstance(shown, torch.Tensor):
        return [shown]
    if isinstance(shown, tuple | list):
        return [each for each in shown if isinstance(each, torch.Tensor)]
    return []


def _num_bytes(tensor: torch.Tensor) -> int:
    elements = 1
    for extent in tensor.shape:
        elements *= extent if type(extent) is int else _UNKNOWN_SIZE
    return elements * tensor.dtype.itemsize


def _calls(held: object) -> int:
    """Call nodes of a graph and of those that it calls."""
    if not isinstance(held, fx.GraphModule):
        return 1
    return sum(
        1 if node.op.startswith("call_") else _calls(operator.attrgetter(str(node.target))(held))
        for node in held.graph.nodes
        if node.op.startswith("call_") or (node.op == "get_attr" and "example_value" not in node.meta)
    )
