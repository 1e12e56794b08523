"""What the search needs to know of each node, read from the graph once.

Everything is turned into small integers here, numbered in the order of the graph, so that what follows compares integers and
the result depends on the graph alone. It decides nothing.
"""

import dataclasses
import enum
import operator
from collections.abc import Hashable
from typing import Any

import torch
from torch import fx

from inductord.compiler.adapter import schema
from inductord.compiler.regions import operators


class Role(enum.Enum):
    """SOURCE: a placeholder, or a ``get_attr`` of a tensor. ATTACHED: free and pure, computed by each piece that needs it.
    REAL: every other call; only these are distributed over the pieces."""

    SOURCE = enum.auto()
    ATTACHED = enum.auto()
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
    ``size``: what compiling it costs, in nodes: with those of the graphs that it calls.
    ``num_bytes``: of the value, 0 for what is no tensor; symbolic sizes count as some number.
    ``materialised``: whether the value is written to memory whatever is fused.
    ``gradient``: whether the value requires a gradient.
    ``written``: the arguments that the node changes.
    ``inside``: whether a context such as autocast is open at the node, or opened or closed by it.
    ``results``: the nodes that the graph returns, with repeats.
    """

    names: list[str]
    roles: list[Role]
    arguments: list[tuple[int, ...]]
    token: list[int]
    value: list[int]
    storage: list[int]
    crosses: list[bool]
    size: list[int]
    num_bytes: list[int]
    materialised: list[bool]
    gradient: list[bool]
    written: list[tuple[int, ...]]
    inside: list[bool]
    results: list[int]


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
        self._contexts = operators.Contexts()

    def read(self) -> Facts:
        facts = Facts(*([] for _ in dataclasses.fields(Facts)))
        for node in self._graph.graph.nodes:
            if node.op == "output":
                facts.results = [self._place[each] for each in _flat(node.args)]
                continue
            self._place[node] = len(facts.names)
            self._add(facts, node)
        return facts

    def _add(self, facts: Facts, node: fx.Node) -> None:
        used: list[fx.Node] = []
        shown = node.meta.get("example_value")
        held = operator.attrgetter(str(node.target))(self._graph) if node.op in ("get_attr", "call_module") else None
        if node.op == "get_attr" and shown is None and isinstance(held, torch.Tensor):
            shown = held
        single = isinstance(shown, torch.Tensor)
        value = self._intern(self._describe(shown))
        storage = self._storage(shown) if isinstance(shown, torch.Tensor) else -1
        name = operators.name_of(node)
        written: list[fx.Node] = []
        size, materialised = 1, False
        inside = False

        if node.op == "placeholder":
            role, token, size = Role.SOURCE, value, 0
        elif node.op == "get_attr":
            size = 0
            role = Role.SOURCE if single else Role.ATTACHED
            token = value if single else self._intern(("held", self._held(held)))
            size = 0 if single else _calls(held)
        else:
            template = (
                node.op,
                self._target(node, held),
                self._template(node.args, used),
                self._template(node.kwargs, used) if node.kwargs else None,
                value,
            )
            token = self._intern(template)
            arguments = [self._place[each] for each in used]
            inside = self._contexts.covers(node, name, shown)
            written = operators.written(node, name)
            materialised = operators.materialises(node, name)
            pure = not inside and not written
            role = Role.ATTACHED if pure and self._is_free(facts, node, name, shown, arguments) else Role.REAL
            size = operators.WORK.get(name, 1)
            size += sum(
                facts.size[each] for each in arguments if facts.roles[each] is Role.ATTACHED and facts.size[each] > 1
            )

        facts.names.append(node.name)
        facts.roles.append(role)
        facts.arguments.append(tuple(self._place[each] for each in used))
        facts.token.append(token)
        facts.value.append(value)
        facts.storage.append(storage)
        facts.crosses.append(single or isinstance(shown, torch.SymInt | torch.SymFloat | torch.SymBool))
        facts.size.append(size)
        facts.num_bytes.append(_num_bytes(shown) if isinstance(shown, torch.Tensor) else 0)
        facts.materialised.append(materialised)
        facts.gradient.append(isinstance(shown, torch.Tensor) and shown.requires_grad)
        facts.written.append(tuple(self._place[each] for each in written))
        facts.inside.append(inside)

    def _is_free(self, facts: Facts, node: fx.Node, name: str, shown: Any, arguments: list[int]) -> bool:
        """Whether it is a view, arithmetic on sizes, or asks for a size."""
        if not arguments or schema.is_custom(node.target):
            return False
        tensors = _tensors(shown)
        if tensors:
            if name not in operators.VIEWS:
                return False
            base = facts.storage[arguments[0]]
            if base < 0 and facts.roles[arguments[0]] is Role.ATTACHED:  # an item of a split
                base = self._storage(_tensors(_shown_of(node.all_input_nodes[0]))[0])
            return base >= 0 and all(self._storage(each) == base for each in tensors)
        if not isinstance(shown, int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool | tuple):
            return False
        if name in operators.SIZES:
            return True
        numbers = all(facts.storage[each] < 0 for each in arguments)
        free = all(facts.roles[each] is not Role.REAL for each in arguments)
        return numbers and free and getattr(node.target, "__module__", "") in ("_operator", "math", "torch")

    def _storage(self, tensor: torch.Tensor) -> int:
        return self._intern.identity(tensor.untyped_storage())

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
        if isinstance(thing, torch.SymInt | torch.SymFloat | torch.SymBool):
            return (kind.__name__, self._intern(thing.node.expr))
        return ("object", self._intern.identity(thing))

    def _target(self, node: fx.Node, held: object) -> Hashable:
        if node.op == "call_method":
            return str(node.target)
        return self._held(held) if node.op == "call_module" else self._intern.identity(node.target)

    def _held(self, held: object) -> Hashable:
        """Structure of a graph that is called; any other object is like itself alone."""
        if not isinstance(held, fx.GraphModule):
            return ("object", self._intern.identity(held))
        inner = _Reader(held, self._intern).read()
        return (tuple(inner.token), tuple(inner.value), tuple(inner.arguments), tuple(inner.results))


_NODE = "%"
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


def _shown_of(node: fx.Node) -> Any:
    return node.meta.get("example_value")


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
