"""Finding repeats in random graphs with planted ones, and running the pieces."""

import operator
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.graphs import SIDE, Builder, Layer, square, stack
from support.pieces import planned, same_when_run
from torch import fx

from inductord.compiler.regions.plan import Plan

pytestmark = pytest.mark.unit


def compiled(found: Plan) -> int:
    """Nodes in the distinct pieces."""
    return sum({piece.shape: len(piece.nodes) for piece in found.pieces}.values())


# Steps of a random layer: (kind, first operand, second operand), operands counted back from the newest value.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["unary", "binary", "linear", "norm", "heads", "split", "in place", "dropout", "scalar"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    min_size=16,
    max_size=32,
)


def random_layer(steps: Sequence[tuple[str, int, int]]) -> Layer:
    def layer(builder: Builder, value: fx.Node) -> fx.Node:
        values = [value]
        for kind, first, second in steps:
            one, other = values[-1 - first % len(values)], values[-1 - second % len(values)]
            values.append(step(builder, kind, one, other))
        return builder.call(
            F.linear,
            builder.call(torch.tanh, builder.call(torch.add, value, values[-1])),
            builder.placeholder(square()),
        )

    return layer


def step(builder: Builder, kind: str, one: fx.Node, other: fx.Node) -> fx.Node:
    match kind:
        case "unary":
            return builder.call(torch.sin, one)
        case "binary":
            return builder.call(torch.mul, builder.call(torch.tanh, one), other)
        case "linear":
            return builder.call(F.linear, one, builder.placeholder(square()))
        case "norm":
            return builder.call(F.layer_norm, one, (SIDE,))
        case "heads":
            return builder.call("contiguous", builder.call("transpose", builder.call("view", one, SIDE, SIDE), 0, 1))
        case "split":
            halves = builder.call("chunk", one, 2, -1)
            return builder.call(
                torch.cat, [builder.call(operator.getitem, halves, 1), builder.call(operator.getitem, halves, 0)], -1
            )
        case "in place":
            return builder.call("add_", builder.call(torch.mul, one, 2.0), other)
        case "dropout":
            return builder.call(F.dropout, one, 0.5, True, False)
        case _:
            return builder.call(torch.add, one, 0.125)


def one_off(constant: int) -> Layer:
    """A layer that is like no other."""

    def layer(builder: Builder, value: fx.Node) -> fx.Node:
        return builder.call(F.linear, builder.call(torch.add, value, constant / 8), builder.placeholder(square()))

    return layer


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, repeats=st.integers(3, 6), between=st.sets(st.integers(1, 5), max_size=2))
def test_planted_repeats_are_found_and_run_like_the_graph(
    steps: list[tuple[str, int, int]], repeats: int, between: set[int]
) -> None:
    layers: list[Layer] = []
    for at in range(repeats):
        layers += [one_off(1 + at)] if at in between else []
        layers.append(random_layer(steps))
    graph, inputs = stack(layers)
    total = sum(node.op.startswith("call_") for node in graph.graph.nodes)
    one = sum(node.op.startswith("call_") for node in stack([random_layer(steps)])[0].graph.nodes)

    found = planned(graph)

    assert compiled(found) <= total - (repeats - 2 - len(between & set(range(1, repeats)))) * (one - 4)
    same_when_run(graph, found, inputs)
