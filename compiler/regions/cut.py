"""A graph and its plan as calls of regions: which value goes where, and what each distinct region is compiled from."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from inductord.compiler.adapter import aot
from inductord.compiler.regions.compose import Returned
from inductord.compiler.regions.extract import extract
from inductord.compiler.regions.plan import Piece, Plan
from inductord.compiler.regions.program import Call, Wiring
from inductord.compiler.regions.reasons import NotCut, WholeReason


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """What a region is compiled from: the first of its pieces as a module, example inputs, and the inputs that keep their
    memory from step to step in every piece."""

    gm: fx.GraphModule
    example_inputs: Sequence[Any]
    static: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """``sources``: one a region, by number; ``constants``: tensors that the graph holds."""

    wiring: Wiring
    sources: Sequence[Source]
    constants: Sequence[Any]
    returned: Sequence[Returned]


def cut(gm: fx.GraphModule, example_inputs: Sequence[Any], plan: Plan) -> Cut:
    """Cut a graph. Leaves it as it was.

    Args:
        gm: the graph that Dynamo captured.
        example_inputs: its inputs as Dynamo gives them: parameters and data are real tensors.
        plan: where to cut.

    Raises:
        NotCut: something in it does not go together with cutting.
    """
    nodes = {node.name: node for node in gm.graph.nodes}
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    slots = {node.name: slot for slot, node in enumerate(inputs)}
    constants = [node for node in gm.graph.nodes if node.op == "get_attr" and _is_tensor(gm, node)]
    slots |= {node.name: slot for slot, node in enumerate(constants, len(slots))}
    regions: dict[int, int] = {}
    calls = []
    for piece in plan.pieces:
        for name in (*piece.inputs, *piece.outputs):
            if not aot.is_plain(_example(nodes[name])):
                kind = type(_example(nodes[name])).__name__
                raise NotCut(WholeReason.SUBCLASS, f"a value of type {kind} would cross a cut")
        args = tuple(slots[name] for name in piece.inputs)
        # A value that several pieces make, such as a symbolic size, is that of the first.
        for name in piece.outputs:
            slots.setdefault(name, len(slots))
        calls.append(Call(regions.setdefault(piece.shape, len(regions)), args, tuple(slots[n] for n in piece.outputs)))
    returned, outputs = _returned(gm, slots, len(inputs), [node.name for node in constants])
    wiring = Wiring(len(inputs), len(slots), tuple(calls), outputs)
    given = {node.name: value for node, value in zip(inputs, example_inputs, strict=True)}
    return Cut(
        wiring, _sources(gm, plan, nodes, given), [_attribute(gm, str(node.target)) for node in constants], returned
    )


def _example(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def _is_tensor(gm: fx.GraphModule, node: fx.Node) -> bool:
    return isinstance(_attribute(gm, str(node.target)), torch.Tensor)


def _attribute(root: torch.nn.Module, path: str) -> Any:
    value: Any = root
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _returned(
    gm: fx.GraphModule, slots: dict[str, int], inputs: int, constants: Sequence[str]
) -> tuple[list[Returned], tuple[int, ...]]:
    outputs: dict[int, int] = {}
    returned = []
    values = _values(gm)
    for value in values:
        if not isinstance(value, fx.Node):
            returned.append(Returned("value", value=value))
        elif value.name in constants:
            returned.append(Returned("value", value=_attribute(gm, str(value.target))))
        elif slots[value.name] < inputs:
            returned.append(Returned("input", slots[value.name]))
        else:
            returned.append(Returned("output", outputs.setdefault(slots[value.name], len(outputs))))
    _check_aliases(gm, values)
    return returned, tuple(outputs)


def _values(gm: fx.GraphModule) -> Sequence[Any]:
    """What a graph returns."""
    (output,) = gm.graph.find_nodes(op="output")
    values: Any = output.args[0]
    return values  # type: ignore[no-any-return]


def _check_aliases(gm: fx.GraphModule, values: Sequence[Any]) -> None:
    """Autograd would not know of a tie between trained outputs that share memory, with one another or with an input."""
    memory: dict[int, fx.Node] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder" and isinstance(value := _example(node), torch.Tensor):
            memory.setdefault(aot.in_memory_of(value), node)
    for node in dict.fromkeys(each for each in values if isinstance(each, fx.Node)):
        value = _example(node)
        if node.op == "placeholder" or not isinstance(value, torch.Tensor):
            continue
        other = memory.setdefault(aot.in_memory_of(value), node)
        if other is not node and (value.requires_grad or _example(other).requires_grad):
            raise NotCut(WholeReason.ALIAS, f"the outputs {other.name} and {node.name} share memory")


def _sources(gm: fx.GraphModule, plan: Plan, nodes: dict[str, fx.Node], given: dict[str, Any]) -> list[Source]:
    like: dict[int, list[Piece]] = {}
    for piece in plan.pieces:
        like.setdefault(piece.shape, []).append(piece)
    return [
        Source(
            _separate(extract(gm, pieces[0])),
            [given[name] if name in given else _example(nodes[name]) for name in pieces[0].inputs],
            frozenset(
                place
                for place, names in enumerate(zip(*(piece.inputs for piece in pieces), strict=True))
                if all(_keeps_memory(nodes[name]) for name in names)
            ),
        )
        for pieces in like.values()
    ]


def _keeps_memory(node: fx.Node) -> bool:
    return node.op == "placeholder" and bool(node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type"))


def _separate(region: fx.GraphModule) -> fx.GraphModule:
    """Make trained outputs that share memory with an input or with one another look as if they did not: to AOTAutograd they
    would be views to be made anew outside. They stay views; nobody writes into what crosses a cut."""
    (output,) = region.graph.find_nodes(op="output")
    seen = {
        aot.in_memory_of(value)
        for node in region.graph.find_nodes(op="placeholder")
        if isinstance(value := _example(node), torch.Tensor)
    }
    values = []
    for node in _values(region):
        value = _example(node)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            memory = aot.in_memory_of(value)
            if memory in seen:
                node = aot.insert_no_view(region.graph, node, output)
            seen.add(memory)
        values.append(node)
    output.args = (tuple(values),)
    region.recompile()
    return region
