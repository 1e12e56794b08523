"""Inductor's compile of one graph that AOTAutograd made, for callers who use AOTAutograd themselves."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch
from torch._dynamo.utils import detect_fake_mode
from torch._guards import TracingContext, tracing
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from inductord.v1.compiler_pb2 import GraphKind


def compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], kind: GraphKind) -> Callable[..., Any]:
    """``compile_fx_inner`` with what ``compile_fx`` does for it beforehand.

    Args:
        gm: the graph. Inductor's passes change a copy.
        example_inputs: real or fake tensors, and symbolic sizes.
        kind: which compiler AOTAutograd would call.

    Raises:
        Whatever Inductor raises for the graph.
    """
    from torch._inductor import compile_fx as inductor

    gm = _plain_copy(gm)
    (output,) = gm.graph.find_nodes(op="output")
    output.meta["user_visible_output_idxs"] = _visible(output, kind)
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    mode = detect_fake_mode([*example_inputs, *values]) or FakeTensorMode(shape_env=ShapeEnv())
    faked = [_fake(mode, given, known) for given, known in zip(example_inputs, values, strict=True)]
    with _context(mode):
        compiled: Callable[..., Any] = inductor.compile_fx_inner(
            gm,
            faked,
            is_backward=kind == GraphKind.GRAPH_KIND_BACKWARD,
            is_inference=kind == GraphKind.GRAPH_KIND_INFERENCE,
        )
    return compiled


def _plain_copy(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, taking and returning flat lists. That of ``aot_export_joint_simple`` takes and returns nested ones."""
    graph = torch.fx.Graph()
    results = graph.graph_copy(gm.graph, {})
    output = graph.output(results)
    (original,) = gm.graph.find_nodes(op="output")
    output.meta.update(original.meta)
    return torch.fx.GraphModule(gm, graph)


@contextlib.contextmanager
def _context(mode: FakeTensorMode) -> Generator[None]:
    """What Dynamo gives Inductor and AOTAutograd by itself does not: a tracing context whose mode knows symbolic sizes, without
    which no cache takes a graph."""
    shape_env = mode.shape_env
    if shape_env is None:
        mode.shape_env = ShapeEnv()
    try:
        with contextlib.nullcontext() if TracingContext.try_get() else tracing(TracingContext(mode)):
            yield
    finally:
        mode.shape_env = shape_env


def decompositions() -> dict[Any, Callable[..., Any]]:
    """A copy of Inductor's table."""
    return dict(select_decomp_table())


def _visible(output: torch.fx.Node, kind: GraphKind) -> list[int]:
    """Outputs that keep their strides. Of those that are only saved for backward Inductor may choose the strides, if there is
    a context through which backward hears of it."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    values = output.args[0]
    assert isinstance(values, (list, tuple)), "AOTAutograd's graphs return a list"
    known = kind == GraphKind.GRAPH_KIND_FORWARD and metadata is not None
    count = metadata.num_forward_returns if known and metadata is not None else len(values)
    return [index for index, value in enumerate(values[:count]) if isinstance(value, torch.fx.Node)]


def _fake(mode: FakeTensorMode, given: Any, known: Any) -> Any:
    """An input as compile_fx gives it: real tensors, which a backend that wants no fake ones gets, become fake."""
    if not isinstance(given, torch.Tensor) or isinstance(given, FakeTensor):
        return given
    # What the graph was traced with: it also says which sizes are symbolic.
    return known if isinstance(known, FakeTensor) else mode.from_tensor(given, static_shapes=True)
