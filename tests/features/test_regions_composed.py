"""Graphs composed of regions against the whole graph, in float64 so that rounding does not hide a wrong gradient.

AOTAutograd, partitioner and composition are real. Only Inductor is left out: the graphs of regions are run as they are, so
that a case costs about a second.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch._inductor.compile_fx import compile_fx
from torch.utils.checkpoint import checkpoint

from inductord.compiler import tickets
from inductord.compiler.reasons import Fallback
from inductord.compiler.regions.compile import compile_regions
from inductord.compiler.regions.find import plan
from inductord.compiler.regions.plan import Plan
from inductord.compiler.regions.reasons import NotCut, WholeReason
from inductord.compiler.timeline import Timeline
from inductord.v1.compiler_pb2 import GRAPH_KIND_FORWARD

pytestmark = [pytest.mark.features, pytest.mark.timeout(600)]

WIDTH = 8
DEPTH = 4


@dataclasses.dataclass
class Composing:
    """A backend of torch.compile that composes, and what became of the graphs. ``runs``: how often graphs of regions ran."""

    plans: list[Plan] = dataclasses.field(default_factory=list)
    compiled: int = 0
    runs: int = 0
    refused: list[WholeReason] = dataclasses.field(default_factory=list)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        found = plan(gm, minimum=0)
        assert isinstance(found, Plan), found
        try:
            composed, _ = compile_regions(gm, example_inputs, found, self._inner, self.options)
        except NotCut as reason:
            self.refused.append(reason.reason)
            return gm.forward
        self.plans.append(found)
        return composed

    def _inner(self, gm: torch.fx.GraphModule, _: Sequence[Any], **__: Any) -> Callable[[list[Any]], Any]:
        self.compiled += 1

        def run(args: list[Any]) -> Any:
            self.runs += 1
            own = list(args)
            args.clear()  # as Inductor's code does
            return gm.forward(*own)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


class Layer(nn.Module):
    """Residual feed-forward."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.LayerNorm, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = norm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Stack(nn.Module):
    """Some layers; what it returns is up to ``after``, which gets the results of all layers."""

    def __init__(
        self,
        depth: int = DEPTH,
        each: Callable[[nn.Module, torch.Tensor], torch.Tensor] | None = None,
        after: Callable[[list[torch.Tensor]], Any] = lambda results: results[-1],
        **layer: Any,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(**layer) for _ in range(depth))
        self.each = each or (lambda layer, x: layer(x))
        self.after = after

    def forward(self, x: torch.Tensor) -> Any:
        results = [x]
        for layer in self.layers:
            results.append(self.each(layer, results[-1]))
        return self.after(results)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with contextlib.ExitStack() as stack:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        stack.callback(torch.set_default_dtype, before)
        yield


@pytest.fixture
def backend() -> Composing:
    return Composing()


def tensors(result: Any) -> list[torch.Tensor]:
    found = result if isinstance(result, (list, tuple)) else [result]
    return [each for each in found if isinstance(each, torch.Tensor)]


def step(model: nn.Module, call: Callable[..., Any], x: torch.Tensor) -> dict[str, Any]:
    """Forward and backward. Outputs, gradients and buffers."""
    model.zero_grad()
    x = x.detach().requires_grad_(x.requires_grad)
    result = call(x)
    trained = [each for each in tensors(result) if each.requires_grad]
    weights = [torch.linspace(0.5, 1.5, each.numel()).view(each.shape) for each in trained]
    torch.autograd.backward(trained, weights)
    return {
        **{f"output {index}": each for index, each in enumerate(tensors(result))},
        "others": [
            each for each in (result if isinstance(result, tuple) else ()) if not isinstance(each, torch.Tensor)
        ],
        **{name: parameter.grad for name, parameter in model.named_parameters()},
        **{name: buffer.clone() for name, buffer in model.named_buffers()},
        "input": x.grad,
    }


def check(model: nn.Module, backend: Composing, *inputs: torch.Tensor, dynamic: bool | None = None) -> None:
    """The composed model does what the model does."""
    compiled = torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for x in inputs:
        model.load_state_dict(state)
        expected = step(model, model, x)
        model.load_state_dict(state)
        found = step(model, compiled, x)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, torch.Tensor) and found[name] is not None:
                torch.testing.assert_close(
                    found[name], value, rtol=1e-10, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}"
                )
            else:
                assert found[name] == value or (found[name] is None and not value.any()), name
    assert backend.refused == []
    assert backend.plans


def batch(size: int = 4, *, trained: bool = False) -> torch.Tensor:
    return torch.randn(size, WIDTH).requires_grad_(trained)


def tie(model: Stack) -> Stack:
    for layer in model.layers:
        layer.up = model.layers[0].up
    return model


def freeze(model: Stack) -> Stack:
    for layer in list(model.layers)[:2]:
        layer.requires_grad_(False)
    return model


def with_checkpoints(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = checkpoint(layer, x, use_reentrant=False)
    return result


MODELS: dict[str, Callable[[], Stack]] = {
    "plain": Stack,
    "tied weights": lambda: tie(Stack()),
    "frozen layers": lambda: freeze(Stack()),
    "batch norm writes its buffers": lambda: Stack(norm=nn.BatchNorm1d),
    "activation checkpointing": lambda: Stack(each=with_checkpoints),
    "the input is an output": lambda: Stack(after=lambda results: (results[-1], results[0])),
    "one output twice": lambda: Stack(after=lambda results: (results[-1], results[-1])),
    "outputs of all layers, one of them not trained": lambda: Stack(
        after=lambda results: (*results[1:], results[2].detach().sum(), results[-1] > 0)
    ),
    "a size, a constant and nothing": lambda: Stack(after=lambda results: (results[-1], results[-1].shape[0], 7, None)),
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_gradients_and_buffers_are_those_of_the_whole_graph(backend: Composing, name: str) -> None:
    check(MODELS[name](), backend, batch(trained=name in ("tied weights", "the input is an output")))
    (found,) = backend.plans
    assert found.distinct < len(found.pieces)
    assert backend.compiled <= 2 * found.distinct


def test_symbolic_sizes_need_one_compile(backend: Composing) -> None:
    check(Stack(after=lambda r: (r[-1], r[-1].shape[0])), backend, batch(4), batch(7), batch(3), dynamic=True)
    assert len(backend.plans) == 1


def test_a_symbolic_float_stays_one_where_not_all_pieces_have_it(backend: Composing) -> None:
    given: dict[str, float] = {}
    model = Stack(after=lambda results: results[-1] * given["scale"])
    compiled = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    x = batch()
    for given["scale"] in (0.25, 0.5, 0.75):
        expected, found = step(model, model, x), step(model, compiled, x)
        torch.testing.assert_close(found["output 0"], expected["output 0"])
    assert backend.refused == []
    assert len(backend.plans) == 1


def test_the_number_of_compiles_does_not_grow_with_depth() -> None:
    compiled = []
    for depth in (4, 12, 32):
        backend = Composing()
        torch.compile(Stack(depth), backend=backend, fullgraph=True)(batch())
        assert backend.plans
        compiled.append(backend.compiled)
    assert compiled[0] <= compiled[1] == compiled[2]


def test_without_gradients_there_is_no_function(backend: Composing) -> None:
    model = Stack()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            x = batch()
            result = compiled(x)
            torch.testing.assert_close(result, model(x))
            assert not result.requires_grad
    assert backend.compiled == sum(found.distinct for found in backend.plans)


def test_autocast_is_in_the_pieces_and_off_around_them(backend: Composing) -> None:
    torch.set_default_dtype(torch.float32)
    model = Stack()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    x = batch()
    with torch.autocast("cpu", torch.bfloat16):
        results = model(x), compiled(x)
    assert results[0].dtype == results[1].dtype
    torch.testing.assert_close(*results, rtol=0.02, atol=0.02)
    gradients = []
    for result in results:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):  # backward under autocast, too
            result.float().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert (gradients[0] - gradients[1]).norm() < 0.02 * gradients[0].norm()
    assert backend.plans


def test_random_numbers_follow_the_seed(backend: Composing) -> None:
    model = Stack(dropout=0.5)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    x = batch()

    def drawn(seed: int) -> tuple[torch.Tensor, ...]:
        model.zero_grad()
        torch.manual_seed(seed)
        result = compiled(x)
        result.sum().backward()
        gradient = model.layers[0].up.weight.grad
        assert gradient is not None
        return result.detach(), gradient.clone()

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert backend.plans


def test_backward_may_come_twice_when_the_graph_is_kept(backend: Composing) -> None:
    model = Stack()
    result = torch.compile(model, backend=backend, fullgraph=True)(batch())
    result.sum().backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    result.sum().backward()
    for parameter, first in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        result.sum().backward()


def test_a_second_derivative_is_refused_as_by_aot_autograd(backend: Composing) -> None:
    x = batch(trained=True)
    result = torch.compile(Stack(), backend=backend, fullgraph=True)(x)
    (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


def test_saved_tensor_hooks_see_each_tensor_once(backend: Composing) -> None:
    model = Stack()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    x = batch()
    compiled(x).sum().backward()
    expected = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> int:
        packed.append(tensor.clone())
        return len(packed) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
        result = compiled(x)
    with torch.no_grad():
        assert len({each.data_ptr() for each in packed}) == len(packed)
    result.sum().backward()
    assert packed
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


class OtherLayouts(Composing):
    """As Inductor does where it likes: forward returns what backward needs in another layout, which is then a copy.
    ``later``: graphs are compiled when all regions are traced, as through a daemon."""

    later = False
    changed = 0

    def _inner(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[[list[Any]], Any]:
        if self.later and tickets.only_begin():
            sent = tickets.FallBack(Fallback.DISABLED, "nobody compiles ahead here")
            record = contextlib.ExitStack()
            span = record.enter_context(Timeline().graph(GRAPH_KIND_FORWARD, 1))
            raise tickets.Begun(tickets.Ticket(gm, sent, span, record))
        if options.get("is_backward"):
            return self._strict(gm, [each.stride() if isinstance(each, torch.Tensor) else None for each in inputs])
        context = torch._guards.TracingContext.get()
        assert context.fw_metadata is not None
        (output,) = gm.graph.find_nodes(op="output")
        values = [node.meta["val"] for node in output.args[0]]
        turned = {i for i in range(context.fw_metadata.num_outputs, len(values)) if values[i].ndim == 2}
        self.changed += len(turned)
        strides = [(1, each.shape[0]) if i in turned else each.stride() for i, each in enumerate(values)]
        assert context.output_strides is not None
        context.output_strides.extend(strides)
        run = super()._inner(gm, inputs, **options)

        def run_and_turn(args: list[Any]) -> list[Any]:
            return [each.t().contiguous().t() if i in turned else each for i, each in enumerate(run(args))]

        run_and_turn._boxed_call = True  # type: ignore[attr-defined]
        return run_and_turn

    def _strict(self, gm: torch.fx.GraphModule, strides: list[Any]) -> Callable[[list[Any]], Any]:
        run = super()._inner(gm, [])

        def checked(args: list[Any]) -> Any:
            assert [each.stride() if isinstance(each, torch.Tensor) else None for each in args] == strides
            return run(args)

        checked._boxed_call = True  # type: ignore[attr-defined]
        return checked


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_backward_gets_the_layouts_that_forward_chose(later: bool) -> None:
    backend = OtherLayouts()
    backend.later = later
    check(Stack(), backend, batch())
    assert backend.changed


def test_hooks_of_parameters_and_inputs_run(backend: Composing) -> None:
    model = Stack()
    x = batch(trained=True)
    called: list[str] = []
    x.register_hook(lambda gradient: called.append("input"))
    for layer in model.layers:
        layer.up.weight.register_post_accumulate_grad_hook(lambda _: called.append("weight"))
    torch.compile(model, backend=backend, fullgraph=True)(x).sum().backward()
    assert sorted(called) == ["input"] + ["weight"] * DEPTH


def test_an_input_that_gets_no_gradient_keeps_its_own_history(backend: Composing) -> None:
    def behind(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = model(x) * y.detach()
        return result

    model = Stack()
    y = batch(trained=True).exp()
    torch.compile(behind, backend=backend, fullgraph=True)(batch(), y).sum().backward()
    y.sum().backward()  # not traversed before
    assert backend.plans


class Counted(nn.Module):
    """Layers that share a buffer which each of them changes."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.register_buffer("count", torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x) + self.count
            self.count.add_(1)
        return x


REFUSED: dict[WholeReason, Callable[[], nn.Module]] = {
    WholeReason.ALIAS: lambda: Stack(after=lambda results: (results[-1], results[-1][:2])),
    WholeReason.MUTATION: Counted,
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_does_not_compose_is_compiled_whole_with_the_reason(backend: Composing, reason: WholeReason) -> None:
    model = REFUSED[reason]()
    torch.compile(model, backend=backend, fullgraph=True)(batch()).__len__()
    assert backend.refused == [reason]
    assert backend.plans == []


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_ddp_may_cut_first(backend: Composing) -> None:
    """Its optimizer gives each bucket as a graph of its own. Some of these have repeats, the others go through AOTAutograd
    as a whole, and their backward is compiled when it runs."""
    whole = 0

    def either(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        nonlocal whole
        if isinstance(plan(gm, minimum=0), Plan):
            return backend(gm, example_inputs)
        whole += 1
        compiled: Callable[..., Any] = compile_fx(gm, example_inputs, inner_compile=backend._inner)
        return compiled

    widths = [200 + 10 * min(number, 6) for number in range(16)]  # buckets are at least a megabyte large

    class Model(nn.Module):  # DDP calls it where Dynamo does not compile PyTorch's own modules
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(widths))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = nn.functional.gelu(layer(x))
            return x

    model = Model()
    x = torch.randn(2, widths[0])
    expected = step(model, model, x)
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
    found = step(model, torch.compile(parallel, backend=either), x)
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12)
    assert whole
    assert backend.plans
    assert backend.refused == []


OPERATIONS: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, w: torch.tanh(x @ w),
    lambda x, w: x + x.mean(-1, keepdim=True) * w[0],
    lambda x, w: (x.unsqueeze(1) * w.sigmoid()).sum(1),
    lambda x, w: x.softmax(-1) @ w.t(),
]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    body=st.lists(st.integers(0, len(OPERATIONS) - 1), min_size=2, max_size=4),
    repeats=st.integers(2, 4),
    shared=st.booleans(),
    skip=st.booleans(),
)
def test_random_networks_with_planted_repeats(body: list[int], repeats: int, shared: bool, skip: bool) -> None:
    torch._dynamo.reset()
    weights = nn.ParameterList(torch.randn(WIDTH, WIDTH) * 0.3 for _ in range(1 if shared else repeats))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = weights

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first = x
            for index in range(repeats):
                y = functools.reduce(lambda y, each: OPERATIONS[each](y, self.weights[index % len(weights)]), body, x)
                x = y + first if skip else y
            return x

    backend = Composing()
    model = Network()
    compiled = torch.compile(model, backend=lambda gm, x: _or_whole(backend, gm, x), fullgraph=True)
    x = batch(trained=True)
    expected, found = step(model, model, x), step(model, compiled, x)
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-12)
    assert backend.refused == []


def _or_whole(backend: Composing, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    return backend(gm, example_inputs) if isinstance(plan(gm, minimum=0), Plan) else gm.forward
