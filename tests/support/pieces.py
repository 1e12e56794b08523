"""Runs the pieces of a plan one after the other, as whoever composes them must, and checks that the plan keeps its contract."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from inductord.compiler.regions.extract import extract
from inductord.compiler.regions.find import plan
from inductord.compiler.regions.plan import Plan


def planned(graph: fx.GraphModule, minimum: int = 0) -> Plan:
    """The plan of a graph that has one; it keeps its contract."""
    found = plan(graph, minimum=minimum)
    assert isinstance(found, Plan), found
    check(graph, found)
    return found


def counts(found: Plan) -> list[int]:
    """How often each shape occurs, by shape."""
    shapes = [piece.shape for piece in found.pieces]
    return [shapes.count(shape) for shape in range(found.distinct)]


def same_when_run(graph: fx.GraphModule, found: Plan, inputs: Sequence[Any]) -> None:
    """Results, gradients and changes of inputs are bitwise those of the graph."""

    def run(function: Callable[..., Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        given = [_copy(each) for each in inputs]
        results = [each for each in flat(function(*given)) if each.requires_grad]
        assert results
        assert all(each.isfinite().all() for each in results)
        torch.stack([each.float().square().sum() for each in results]).sum().backward()
        leaves = flat(given)
        return [*results, *leaves, *(each.grad for each in leaves if each.grad is not None)]

    whole, cut = run(graph), run(lambda *leaves: run_pieces(graph, found, leaves))
    assert len(whole) == len(cut)
    assert [at for at, (one, other) in enumerate(zip(whole, cut, strict=True)) if not torch.equal(one, other)] == []


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return int(value)  # a symbolic size
    return value.detach().clone().requires_grad_(value.requires_grad)


def run_pieces(graph: fx.GraphModule, plan: Plan, inputs: Sequence[Any]) -> Any:
    """What ``graph`` returns for ``inputs``. Each shape is extracted once and serves all its pieces."""
    values: dict[str, Any] = {}
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, inputs, strict=True):
        values[node.name] = value
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            values[node.name] = operator.attrgetter(str(node.target))(graph)
    modules: dict[int, fx.GraphModule] = {}
    for piece in plan.pieces:
        module = modules.setdefault(piece.shape, extract(graph, piece))
        results = module(*(values[name] for name in piece.inputs))
        values.update(zip(piece.outputs, results, strict=True))
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    return fx.map_arg(output.args[0], lambda node: values[node.name])


def check(graph: fx.GraphModule, plan: Plan) -> None:
    """The contract of ``plan``, but for what its pieces compute."""
    nodes = {node.name: node for node in graph.graph.nodes}
    calls = {name for name, node in nodes.items() if node.op.startswith("call_")}
    made: set[str] = {name for name, node in nodes.items() if node.op in ("placeholder", "get_attr")}
    held: set[str] = set()
    for piece in plan.pieces:
        assert len(set(piece.nodes)) == len(piece.nodes)
        assert set(piece.inputs) <= made
        assert not set(piece.inputs) & set(piece.nodes)
        assert set(piece.outputs) <= set(piece.nodes)
        inside = set(piece.inputs)
        for name in piece.nodes:
            assert {each.name for each in nodes[name].all_input_nodes} <= inside
            inside.add(name)
        made |= set(piece.outputs)
        held |= set(piece.nodes)
    assert {name for name in calls - held if nodes[name].users} == set()
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    assert {each.name for each in output.all_input_nodes} <= made
    assert [piece.shape for piece in plan.pieces[:1]] == [0]
    assert {piece.shape for piece in plan.pieces} == set(range(plan.distinct))


def flat(values: Any) -> list[torch.Tensor]:
    """The tensors in what a graph returned, in order."""
    if isinstance(values, torch.Tensor):
        return [values]
    return [each for value in values for each in flat(value)] if isinstance(values, tuple | list) else []
