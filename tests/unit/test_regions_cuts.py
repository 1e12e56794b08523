"""Where graphs are cut, where they must not be, and what makes two pieces equal."""

import itertools
import os
import subprocess
import sys
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.graphs import SIDE, Builder, Layer, decoder, square, stack
from support.pieces import counts, planned, same_when_run
from torch import fx

from inductord.compiler.regions import canonical, facts, merge
from inductord.compiler.regions.extract import extract
from inductord.compiler.regions.find import BUCKET_SHARE, plan
from inductord.compiler.regions.plan import Piece, Plan, Whole
from inductord.compiler.regions.reasons import WholeReason
from inductord.compiler.regions.render import describe, describe_whole, headline, left_out, piece_lines
from inductord.daemon.orders import MAX_CUT_BYTES

pytestmark = pytest.mark.unit


def mlp(
    activation: Any = torch.sigmoid,
    scale: float = 2.0,
    middle: Layer | None = None,
    dtype: torch.dtype = torch.float32,
    gradient: bool = True,
) -> Layer:
    """A residual layer of 13 nodes, with ``middle`` in it."""

    def layer(builder: Builder, value: fx.Node) -> fx.Node:
        normed = builder.call(F.layer_norm, value, (SIDE,))
        hidden = builder.call(F.linear, normed, builder.placeholder(square(gradient)))
        for at in range(4):
            hidden = builder.call(activation, builder.call(torch.mul, hidden, scale + at))
        if middle:
            hidden = middle(builder, hidden)
        cast = (
            builder.call("to", builder.call("to", hidden, dtype), torch.float32) if dtype != torch.float32 else hidden
        )
        return builder.call(torch.add, value, builder.call(F.linear, cast, builder.placeholder(square())))

    return layer


def text(found: Plan, graph: fx.GraphModule) -> str:
    """All that a plan says, with what its pieces compute."""
    return f"{found}{[extract(graph, piece).code for piece in found.pieces]}"


@pytest.mark.parametrize("layers", [4, 12])
def test_a_decoder_is_cut_at_matrix_products_and_into_as_many_distinct_pieces_whatever_its_depth(layers: int) -> None:
    graph = decoder(layers)
    found = planned(graph, minimum=24)
    assert counts(found) == [1, layers - 1, 1]
    nodes = {node.name: node for node in graph.graph.nodes}
    for piece, following in itertools.pairwise(found.pieces):
        crossing = [nodes[name] for name in piece.outputs if name in following.inputs]
        # The residual stream and results of library calls.
        library = (F.linear, F.scaled_dot_product_attention)
        assert [node.target for node in crossing if node.target not in (*library, torch.add)] == []
        assert sum(node.target is torch.add for node in crossing) <= 1


def test_models_of_different_depth_share_their_pieces() -> None:
    shallow, deep = decoder(3), decoder(5)
    texts = [{extract(graph, piece).code for piece in planned(graph).pieces} for graph in (shallow, deep)]
    assert texts[0] == texts[1]


def test_kinds_of_layers_that_take_turns_are_found_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "JOIN_NODES", 16)  # these layers are smaller than real ones
    dense, sparse = mlp(), mlp(torch.tanh)
    graph, inputs = stack([dense, dense, dense, sparse] * 3)
    found = planned(graph)
    assert sorted(counts(found))[-2:] == [2, 9]  # the last one is joined by the end of the graph
    same_when_run(graph, found, inputs)


def test_layers_of_two_stacks_are_found_across_one_off_pieces() -> None:
    graph, inputs = stack([*[mlp()] * 3, mlp(torch.sin, 0.5), *[mlp()] * 3])
    found = planned(graph)
    assert max(counts(found)) >= 5
    same_when_run(graph, found, inputs)


def no_gradients(builder: Builder, value: fx.Node) -> fx.Node:
    builder.call(torch._C._set_grad_enabled, False)
    with torch.no_grad():
        quiet = builder.call("detach", builder.call(torch.mul, builder.call("transpose", value, 0, 1), 3.0))
        quiet = builder.call(torch.nn.functional.linear, quiet, quiet)
    builder.call(torch._C._set_grad_enabled, True)
    return builder.call(torch.mul, builder.call("contiguous", builder.call("transpose", value, 0, 1)), quiet)


def test_a_context_is_never_cut_open() -> None:
    graph, inputs = stack([mlp(middle=no_gradients)] * 4)
    found = planned(graph)
    assert max(counts(found)) >= 3
    for piece in found.pieces:
        assert sum("set_grad_enabled" in name for name in piece.nodes) % 2 == 0
    same_when_run(graph, found, inputs)


def test_autocast_around_all_layers_is_entered_by_each_piece() -> None:
    builder = Builder()
    value = builder.call(torch.tanh, builder.placeholder(square()))
    enter = builder.call(torch.amp.autocast_mode._enter_autocast, "cpu", torch.bfloat16, True, False)
    for _ in range(5):
        value = mlp()(builder, value)
    builder.call(torch.amp.autocast_mode._exit_autocast, enter)
    graph = builder.finish(builder.call("sum", builder.call(torch.cos, value)))
    found = planned(graph)
    assert max(counts(found)) >= 4
    inside = [piece for piece in found.pieces if enter.name in piece.nodes]
    assert len(inside) > 4
    assert all(any("exit_autocast" in name for name in piece.nodes) for piece in inside)
    same_when_run(graph, found, builder.inputs)


def test_memory_that_a_piece_makes_is_changed_in_that_piece() -> None:
    def in_place(builder: Builder, value: fx.Node) -> fx.Node:
        made = builder.call(F.linear, value, builder.placeholder(square()))
        view = builder.call("view", made, -1)
        builder.call("add_", view, 1.0)
        product = builder.call(F.linear, value, builder.placeholder(square()))
        builder.call("add_", view, 0.5)
        return builder.call(torch.add, product, made)

    graph, inputs = stack([mlp(middle=in_place)] * 4)
    found = planned(graph)
    for piece in found.pieces:
        assert sum(name.startswith("add_") and "view" in name for name in piece.nodes) in (0, 1)
        assert not [name for name in piece.inputs if graph_node(graph, name).target == "view"]
    assert max(counts(found)) >= 3
    same_when_run(graph, found, inputs)


def graph_node(graph: fx.GraphModule, name: str) -> fx.Node:
    return next(node for node in graph.graph.nodes if node.name == name)


def test_buffers_that_layers_count_in_do_not_hinder() -> None:
    def counting(builder: Builder, value: fx.Node) -> fx.Node:
        builder.call("add_", builder.placeholder(torch.zeros(())), 1)
        return value

    graph, inputs = stack([mlp(middle=counting)] * 4)
    found = planned(graph)
    assert max(counts(found)) >= 3
    same_when_run(graph, found, inputs)


def test_views_are_taken_again_by_each_piece_that_needs_them() -> None:
    builder = Builder()
    mask = builder.call("unsqueeze", builder.placeholder(square(gradient=False)), 0)
    half = builder.call("select", mask, 0, 0)
    value = builder.call(torch.tanh, builder.placeholder(square()))
    for _ in range(4):
        value = mlp(middle=lambda builder, inner: builder.call(torch.mul, inner, half))(builder, value)
    graph = builder.finish(value, half)
    found = planned(graph)
    assert max(counts(found)) >= 3
    assert sum(half.name in piece.nodes for piece in found.pieces) >= 4
    assert [piece for piece in found.pieces if half.name in piece.inputs or mask.name in piece.inputs] == []
    same_when_run(graph, found, builder.inputs)


def test_results_that_are_several_values_stay_where_they_are_made() -> None:
    def largest(builder: Builder, value: fx.Node) -> fx.Node:
        both = builder.call("max", value, -1, True)
        product = builder.call(F.linear, value, builder.placeholder(square()))
        return builder.call(torch.mul, product, builder.call(getattr_item, both, 0))

    graph, inputs = stack([mlp(middle=largest)] * 4)
    found = planned(graph)
    assert [name for piece in found.pieces for name in piece.outputs if name.startswith("max")] == []
    assert max(counts(found)) >= 3
    same_when_run(graph, found, inputs)


def getattr_item(values: Sequence[Any], at: int) -> Any:
    return values[at]


def keys(*layers: Layer) -> list[Hashable]:
    """The structure of each layer in one graph."""
    graph, _ = stack(layers)
    known = facts.read(graph)
    real = [node for node, role in enumerate(known.roles) if role is facts.Role.REAL][1:-2]
    lengths = [sum(node.op.startswith("call_") for node in stack([layer])[0].graph.nodes) - 3 for layer in layers]
    ends = [sum(lengths[: at + 1]) for at in range(len(layers))]
    assert ends[-1] == len(real)
    return [canonical.run_of(known, real[end - length : end]).key for end, length in zip(ends, lengths, strict=True)]


def product(same: bool) -> Layer:
    def layer(builder: Builder, value: fx.Node) -> fx.Node:
        one = builder.placeholder(square())
        other = one if same else builder.placeholder(square())
        return builder.call(torch.mul, builder.call(F.linear, value, one), builder.call(F.linear, value, other))

    return layer


def halves(aliased: bool) -> Layer:
    def layer(builder: Builder, value: fx.Node) -> fx.Node:
        both = torch.randn(2, SIDE, SIDE)
        one, other = (builder.placeholder(each if aliased else each.clone()) for each in both)
        return builder.call(torch.add, builder.call(torch.add, value, one), other)

    return layer


def strided(turned: bool) -> Layer:
    def layer(builder: Builder, value: fx.Node) -> fx.Node:
        return builder.call(torch.add, value, builder.placeholder(square().T if turned else square()))

    return layer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (mlp(), mlp(torch.tanh)),
        (mlp(), mlp(scale=2)),
        (mlp(dtype=torch.float16), mlp(dtype=torch.float64)),
        (mlp(), mlp(gradient=False)),
        (product(True), product(False)),
        (halves(True), halves(False)),
        (strided(True), strided(False)),
    ],
    ids=["operator", "kind of literal", "dtype", "gradient", "same value twice", "shared memory", "strides"],
)
def test_what_differs_is_not_equal(one: Layer, other: Layer) -> None:
    first, second, again = keys(one, other, one)
    assert first != second
    assert first == again


def test_a_small_graph_is_not_cut() -> None:
    found = plan(stack([mlp()])[0])
    assert isinstance(found, Whole)
    assert found.reason is WholeReason.TOO_SMALL


def test_a_graph_without_repeats_is_not_cut() -> None:
    builder = Builder()
    value = builder.placeholder(torch.randn(SIDE, 1))
    for width in range(2, 30):
        value = builder.call(F.linear, value, builder.placeholder(torch.randn(width, width - 1, requires_grad=True)))
    found = plan(builder.finish(value))
    assert isinstance(found, Whole)
    assert found.reason is WholeReason.NO_REPEATS


def test_a_cut_that_saves_little_is_not_made() -> None:
    found = plan(stack([mlp(), mlp()])[0], minimum=22)
    assert isinstance(found, Whole)
    assert found.reason is WholeReason.SAVES_TOO_LITTLE


def test_a_bucket_is_cut_where_that_saves_half_of_it() -> None:
    different = [mlp(each) for each in (torch.tanh, torch.sin, torch.cos)]
    for repeats, pays in ((4, False), (12, True)):
        graph = stack([*[mlp()] * repeats, *different])[0]
        assert isinstance(plan(graph), Plan)
        found = plan(graph, share=BUCKET_SHARE)
        assert isinstance(found, Plan) if pays else found.reason is WholeReason.SAVES_TOO_LITTLE


def test_a_graph_without_values_is_not_cut() -> None:
    graph, _ = stack([mlp()] * 9)
    for node in graph.graph.nodes:
        node.meta.clear()
    found = plan(graph)
    assert isinstance(found, Whole)
    assert found.reason is WholeReason.NO_REPEATS


def test_the_search_changes_nothing_and_finds_the_same_again() -> None:
    graph = decoder(3)
    before = str(graph.graph)
    first = text(planned(graph), graph)
    assert str(graph.graph) == before
    assert text(planned(graph), graph) == first


def test_a_process_with_other_hashes_cuts_alike(tmp_path: Path) -> None:
    script = (
        "from support.graphs import decoder; from support.pieces import planned\n"
        "graph = decoder(3); print(planned(graph), graph.graph)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parent.parent)}
    run = [sys.executable, "-c", script]
    there = subprocess.run(run, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    graph = decoder(3)
    assert there.strip() == f"{planned(graph)} {graph.graph}"


def test_a_plan_in_words() -> None:
    graph = decoder(5)
    keys = [[f"{number:064x}"] for number in range(3)]
    cut = describe(260, planned(graph), keys)
    assert headline(cut).startswith("a graph of 260 nodes in 6 pieces, 3 of them distinct with ")
    lines = piece_lines(cut)
    assert [line.partition(",")[0] for line in lines] == ["0: once", "1: 4 times", "2: once"]
    assert lines[-1].endswith(f"hands on {planned(graph).pieces[-1].outputs[0]}")
    assert left_out(cut) == ""
    assert [[key.hex() for key in piece.keys] for piece in cut.distinct_pieces] == keys


def test_a_plan_for_the_daemon_is_bounded() -> None:
    names = tuple("ñ" * 1000 for _ in range(50))
    pieces = tuple(Piece(names, names, names, shape) for shape in range(100))
    cut = describe(5000, Plan(pieces, 100, "x" * 5000), [[f"{n:064x}" for n in range(50)]] * 100)
    assert cut.ByteSize() < MAX_CUT_BYTES
    assert describe_whole(1, "error", "no text: \udcff " + "x" * 5000, []).note.startswith("no text: ? xxx")
    assert (cut.pieces, cut.distinct, cut.distinct_nodes, left_out(cut)) == (
        100,
        100,
        5000,
        "and 60 more distinct pieces",
    )
