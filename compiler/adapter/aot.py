"""AOTAutograd for one region: trace it once, catch the graphs that Inductor would be given, and learn how they are called.

``compile_fx`` does all of its usual work on the region, but its ``inner_compile`` is ours: it notes the graph and lets the
caller begin the compile. ``finish`` compiles later, when the graphs of all regions have been begun.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo import config as _dynamo_config
from torch._dynamo.exc import RestartAnalysis
from torch._dynamo.symbolic_convert import TensorifyState
from torch._dynamo.utils import counters
from torch._functorch import config as _functorch_config
from torch._functorch._aot_autograd import schemas as _schemas
from torch._guards import TracingContext, tracing
from torch._inductor import config as _config
from torch._inductor.virtualized import V
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_symbols
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._sympy.symbol import SymT, prefix_str

from inductord.compiler.adapter import seam
from inductord.compiler.regions.convention import Backward, Convention, Kind, Layout, Origin
from inductord.compiler.regions.reasons import NotCut, WholeReason

BeginAgain = RestartAnalysis
"""Raised to Dynamo: trace anew, with something settled that was symbolic."""

Inner = Callable[..., Any]
Begin = Callable[[Callable[[], Any]], Any]
"""Called with a function that compiles; returns what ``Graph.begun`` is to hold."""

_OF_ITS_OWN = (
    _schemas.OutputType.non_alias,
    _schemas.OutputType.unsafe_view_alias,
    _schemas.OutputType.custom_function_view,
)


@dataclasses.dataclass(eq=False, slots=True)
class Graph:
    """A post-AOTAutograd graph with what Inductor is called with. ``begun``: what ``Begin`` gave."""

    gm: torch.fx.GraphModule
    inputs: list[Any]
    options: dict[str, Any]
    begun: Any = None
    # AOTAutograd asks these of what a compiler returns.
    _boxed_call = True

    def __call__(self, *_: object) -> Any:
        raise AssertionError("the graph of a region is run by whoever composes it")


@dataclasses.dataclass(eq=False, slots=True)
class Traced:
    """A region after AOTAutograd. ``context``: to compile its graphs under; ``backward``: None when nothing is trained."""

    forward: Graph
    backward: Graph | None
    convention: Convention
    context: TracingContext


def trace(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    static: frozenset[int],
    inner: Inner,
    begin: Begin,
    patches: dict[str, Any],
) -> Traced:
    """Run AOTAutograd on a region.

    Args:
        gm: the region as Dynamo captured it; not used again by the caller.
        example_inputs: fake tensors and symbolic sizes; real tensors where Dynamo gave such.
        static: inputs that keep their memory from step to step, such as parameters.
        inner: Inductor's ``compile_fx_inner``, or a wrapper of it.
        begin: begins a compile and returns at once.
        patches: Inductor configuration of this graph.

    Raises:
        NotCut: the region is of a kind that is not composed.
    """
    outer = TracingContext.get()
    assert outer.fake_mode is not None
    context = TracingContext(outer.fake_mode)
    context.tensor_to_context = outer.tensor_to_context  # which sizes of real inputs are symbolic
    graphs: list[Graph] = []

    def caught(graph_module: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Graph:
        forward = not options.get("is_backward")
        if forward:
            _check(context.fw_metadata, len(inputs), len(example_inputs))
            # What Dynamo says of parameters is not on a region's placeholders. Its inputs come in the same order.
            options["static_input_idxs"] = sorted(static)
        graph = Graph(graph_module, list(inputs), options)
        graphs.append(graph)
        graph.begun = begin(lambda: inner(graph_module, inputs, **options))
        return graph

    with (
        tracing(context),
        _without_floats_of_others(gm, outer.fake_mode.shape_env),
        _functorch_config.patch(force_non_lazy_backward_lowering=True, enable_autograd_cache=False),
    ):
        seam.compile_fx(gm, example_inputs, lambda _: caught, patches)
    forward, backward = _two(graphs)
    convention = _convention(context.fw_metadata, forward, backward, len(example_inputs))
    return Traced(forward, backward, convention, context)


@contextlib.contextmanager
def _without_floats_of_others(gm: torch.fx.GraphModule, shape_env: ShapeEnv | None) -> Generator[None]:
    """Let PyTorch take symbolic floats that are not in the region for settled. It makes tensors of them all, and has Dynamo
    begin again with a number for each that it did not see used (torch/fx/passes/_tensorify_python_scalars.py)."""
    settled = TensorifyState.force_specializations
    values = [node.meta.get("example_value") for node in gm.graph.nodes if node.op != "output"]
    own = {str(symbol) for each in symbolic_numbers(values) for symbol in free_symbols(each)}
    symbols = [] if shape_env is None else map(str, shape_env.var_to_range)
    others = {name for name in symbols if name.startswith(prefix_str[SymT.FLOAT])} - own - settled
    settled |= others
    try:
        yield
    finally:
        settled -= others


def symbolic_numbers(value: object) -> Iterator[Any]:
    """Those in a value of a graph: itself, or sizes, strides and offset of a tensor."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from symbolic_numbers(each)
    elif isinstance(value, FakeTensor):
        yield from symbolic_numbers([*value.shape, *value.stride(), value.storage_offset()])
    elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        yield value


def _two(graphs: list[Graph]) -> tuple[Graph, Graph | None]:
    backward = [graph for graph in graphs if graph.options.get("is_backward")]
    forward = [graph for graph in graphs if not graph.options.get("is_backward")]
    if len(forward) != 1 or len(backward) > 1:
        raise NotCut(
            WholeReason.CONVENTION, f"AOTAutograd made {len(forward)} forward and {len(backward)} backward graphs"
        )
    return forward[0], backward[0] if backward else None


def _check(metadata: Any, graph_inputs: int, region_inputs: int) -> None:
    """Refuse what would need AOTAutograd's own wrappers around the compiled graphs."""
    aliased = [info for info in metadata.output_info if info.output_type not in _OF_ITS_OWN and info.requires_grad]
    effects = metadata.tokens or metadata.num_backward_tokens
    random = metadata.num_graphsafe_rng_states or metadata.is_rng_op_functionalized
    for found, reason, message in (
        (
            metadata.num_mutated_inp_runtime_indices,
            WholeReason.MUTATION,
            "an input is overwritten in a way autograd sees",
        ),
        (aliased or metadata.num_intermediate_bases, WholeReason.ALIAS, "trained outputs share memory"),
        (effects, WholeReason.EFFECTS, "operators with side effects have to keep their order"),
        (random, WholeReason.RANDOM, "the state of the random generator is an input"),
        (metadata.grad_enabled_mutation is not None, WholeReason.GRAD_MODE, "the region changes the grad mode"),
        (getattr(metadata, "num_tensors_saved_with_no_vc_check", 0), WholeReason.CONVENTION, "unchecked saved tensors"),
        (getattr(metadata, "num_opaque_objects_saved_for_bw", 0), WholeReason.CONVENTION, "opaque objects are saved"),
        (graph_inputs != region_inputs, WholeReason.CONVENTION, "the graph takes other inputs than the region"),
    ):
        if found:
            raise NotCut(reason, message)


def _convention(metadata: Any, forward: Graph, backward: Graph | None, inputs: int) -> Convention:
    outputs = len(metadata.output_info)
    return Convention(
        inputs=inputs,
        outputs=outputs,
        mutated=tuple(metadata.mutated_graph_handled_indices),
        noticed=tuple(metadata.mutated_graph_handled_indices_seen_by_autograd),
        backward=None if backward is None else _backward(metadata, forward, backward, inputs, outputs),
    )


def _backward(metadata: Any, forward: Graph, backward: Graph, inputs: int, outputs: int) -> Backward:
    placeholders = {node: index for index, node in enumerate(forward.gm.graph.find_nodes(op="placeholder"))}
    returned = list(_returned(forward.gm))
    as_output = {node: index for index, node in reversed(list(enumerate(returned[:outputs])))}

    def origins(part: slice, taken: Sequence[Any]) -> tuple[Origin, ...]:
        return tuple(origin(index, value) for index, value in zip(range(len(returned))[part], taken, strict=False))

    def origin(index: int, value: Any) -> Origin:
        node = returned[index]
        if isinstance(value, torch.Tensor) and _differ(node.meta["val"].stride(), value.stride()):
            return Origin(Kind.NEW, index)  # Inductor returns a copy in another layout
        if node in placeholders:
            return Origin(Kind.INPUT, placeholders[node])
        if node in as_output:
            return Origin(Kind.OUTPUT, as_output[node])
        return Origin(Kind.NEW, index)

    symints = origins(metadata.symints_saved_for_backwards_slice, backward.inputs)
    saved = origins(metadata.tensors_saved_for_backwards_slice, backward.inputs[len(symints) :])
    tangents = tuple(
        index
        for index, info in enumerate(metadata.output_info)
        if info.output_type in _OF_ITS_OWN
        and issubclass(info.raw_type, torch.Tensor)
        and getattr(info, "requires_grad_for_backward", info.requires_grad)
    )
    gradients = tuple(value is not None for value in _returned(backward.gm))
    first = len(symints) + len(saved)
    if len(backward.inputs) != first + len(tangents) or len(gradients) != inputs:
        raise NotCut(WholeReason.CONVENTION, "backward takes or returns other values than expected")
    layouts = tuple(map(_layout, backward.inputs[first:]))
    donated = frozenset(index - len(symints) for index in metadata.bw_donated_idxs or ())
    return Backward(symints, saved, donated, tangents, layouts, gradients)


def _returned(gm: torch.fx.GraphModule) -> Sequence[Any]:
    (output,) = gm.graph.find_nodes(op="output")
    values: Sequence[Any] = output.args[0]
    return values


def _layout(tangent: torch.Tensor) -> Layout:
    size, stride = tuple(tangent.shape), tuple(tangent.stride())
    if all(type(number) is int for number in (*size, *stride)):
        return Layout(size, stride, "")
    return Layout(None, None, str(suggest_memory_format(tangent)).removeprefix("torch."))


# Compiling what was begun


def finish(
    traced: Traced, inner: Inner, compile_one: Callable[[Graph, Callable[[], Any]], Any], patches: dict[str, Any]
) -> tuple[Any, Any]:
    """The compiled graphs of a region, forward and backward (None where there is none); ``convention`` is final then.

    ``compile_one`` is called for each with a function that compiles it; it returns what that gives. Backward was begun for the
    strides that forward's graph says. When Inductor chose others for a saved tensor, it is compiled for those.
    """
    with tracing(traced.context), _config.patch(patches), torch.no_grad(), torch._C._DisableAutocast():
        forward = traced.forward
        with TracingContext.report_output_strides() as strides:
            compiled = compile_one(forward, lambda: inner(forward.gm, forward.inputs, **forward.options))
        backward = traced.backward
        if backward is None:
            return compiled, None
        if strides and (others := _restride(traced, strides)):
            backward.begun = None
            traced.convention = _with_copies(traced, others)
        return compiled, compile_one(backward, lambda: inner(backward.gm, backward.inputs, **backward.options))


def _restride(traced: Traced, strides: Sequence[Any]) -> frozenset[int]:
    """Give backward's example inputs the strides that forward's outputs have. Which of the saved tensors had others."""
    metadata, backward = traced.context.fw_metadata, traced.backward
    assert metadata is not None
    assert backward is not None
    symints = metadata.num_symints_saved_for_bw or 0
    changed = set()
    for index, actual in enumerate(strides[metadata.tensors_saved_for_backwards_slice]):
        place = symints + index
        expected = backward.inputs[place]
        if actual is None or not isinstance(expected, torch.Tensor):
            continue
        if _differ(expected.stride(), actual):
            backward.inputs[place] = expected.as_strided(expected.size(), actual)
            changed.add(index)
    return frozenset(changed)


def _with_copies(traced: Traced, others: frozenset[int]) -> Convention:
    """The convention when forward returns saved tensors in another layout: what looks like an input is a copy of it."""
    backward, metadata = traced.convention.backward, traced.context.fw_metadata
    assert backward is not None
    assert metadata is not None
    first = metadata.tensors_saved_for_backwards_slice.start
    saved = tuple(
        Origin(Kind.NEW, first + index) if index in others else origin for index, origin in enumerate(backward.saved)
    )
    return dataclasses.replace(traced.convention, backward=dataclasses.replace(backward, saved=saved))


def _differ(expected: Sequence[Any], actual: Sequence[Any]) -> bool:
    # Compared as expressions: comparing symbolic sizes as numbers would make guards of them.
    return [str(number) for number in expected] != [str(number) for number in actual]


# What is looked at before and around


def current_fake_mode() -> FakeTensorMode | None:
    """The fake mode of the graph that Dynamo is compiling."""
    context = TracingContext.try_get()
    return context.fake_mode if context is not None else None


def unsuitable(gm: torch.fx.GraphModule, patches: dict[str, Any]) -> NotCut | None:
    """Why a graph is compiled whole whatever is in it, or None."""
    examples = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    for each in filter(is_traceable_wrapper_subclass, examples):
        return NotCut(WholeReason.SUBCLASS, f"an input is of type {type(each).__name__}")
    if current_fake_mode() is None or not all(
        isinstance(each, FakeTensor) for each in examples if isinstance(each, torch.Tensor)
    ):
        return NotCut(WholeReason.MODE, "it does not come from Dynamo")
    with _config.patch(patches):
        if _config.triton.cudagraphs:
            return NotCut(WholeReason.CUDA_GRAPHS, "CUDA graphs are captured over the whole graph")
        for wanted, message in (
            (V.aot_compilation, "ahead-of-time compilation makes one package"),
            (_config.cpp_wrapper, "cpp_wrapper makes one library of a graph"),
            (getattr(_config, "fx_wrapper", False), "fx_wrapper makes one module of a graph"),
            (_config.freezing and not torch.is_grad_enabled(), "freezing folds constants over the whole graph"),
            (_dynamo_config.compiled_autograd, "compiled autograd traces backward by itself"),
        ):
            if wanted:
                return NotCut(WholeReason.MODE, message)
    return None


def is_bucket_of_ddp() -> bool:
    """Whether the graph that Dynamo is compiling is what DistributedDataParallel's optimizer made of a larger one."""
    context = TracingContext.try_get()
    return context is not None and context.ddp_optimizer_ctx is not None


def is_plain(value: object) -> bool:
    """Whether a value may cross a cut: a fake tensor that is no subclass, a symbolic size, a number."""
    if isinstance(value, torch.Tensor):
        return isinstance(value, FakeTensor) and not is_traceable_wrapper_subclass(value)
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def in_memory_of(value: torch.Tensor) -> int:
    """Identity of the memory behind a fake tensor."""
    return value.untyped_storage()._cdata


def insert_no_view(graph: torch.fx.Graph, node: torch.fx.Node, before: torch.fx.Node) -> torch.fx.Node:
    """Add a node that gives the same memory as ``node`` as a tensor of its own."""
    with graph.inserting_before(before):
        size = graph.call_method("size", (node,))
        return graph.call_function(torch.ops.aten._unsafe_view.default, (node, size))


@contextlib.contextmanager
def beside_ddp() -> Generator[None]:
    """Let the optimizer that cuts a graph at DDP's buckets take a bucket for one that AOTAutograd did not see.

    It goes by AOTAutograd's count. For a bucket that AOTAutograd saw, it wants the metadata of its one graph, to compile its
    backward when that runs; here there are several, and nothing is compiled later (torch/_dynamo/backends/distributed.py).
    """
    before = counters["aot_autograd"]["total"]
    try:
        yield
    finally:
        context = TracingContext.try_get()
        if context is not None and context.ddp_optimizer_ctx is not None:
            counters["aot_autograd"]["total"] = before


@contextlib.contextmanager
def counted_once() -> Generator[None]:
    """Undo, when the block is left by an exception, what Inductor's counters counted in it: the same graph comes again."""
    before = counters["inductor"].copy()
    try:
        yield
    except BaseException:
        counters["inductor"].clear()
        counters["inductor"].update(before)
        raise
