"""Small functions that use one feature of PyTorch each, compiled and run as a user would. It knows nothing of inductord.

python features.py [--device cuda] [NAME ...]

Prints, by name, a digest of the exact bits of what came out (outputs, gradients, what was changed in place), or the error.
"""

import functools
from collections.abc import Iterable
from typing import Any

import opaque_objects
import torch
import torch.nn.functional as F
from cases import case, leaf, main, mlp, scaled_step, through
from functorch.compile import aot_function
from torch import Tensor, nn
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.decomposition import select_decomp_table

# Graphs and inputs


@case("inference")
def inference() -> Iterable[Any]:
    with torch.no_grad():
        return through(mlp(nn.GELU()).eval(), torch.randn(3, 8))


@case("eager backward")
def eager_backward() -> Iterable[Any]:
    with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        return through(lambda x: (x.sin() * x).exp(), leaf(7))


@case("input mutation")
def input_mutation() -> Iterable[Any]:
    def change(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2).add_(y)
        y.t_()
        return x.sin()

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    return [*through(change, x, y), x, y]


@case("output alias")
def output_alias() -> Iterable[Any]:
    def views(x: Tensor) -> tuple[Tensor, ...]:
        y = x.sin()
        return x.view(-1), y, y.t(), x[1:]

    return through(views, torch.randn(3, 5))


@case("overlapping inputs")
def overlapping_inputs() -> Iterable[Any]:
    def change(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    base = torch.randn(10)
    return [*through(change, base[:6], base[3:9]), base]


@case("tensor subclass")
def tensor_subclass() -> Iterable[Any]:
    from torch.testing._internal.two_tensor import TwoTensor

    given = TwoTensor(torch.randn(5), torch.randn(5))
    out = torch.compile(lambda x: x.sin() * 2 + x)(given)
    return [out.a, out.b]


@case("jagged nested tensor")
def nested() -> Iterable[Any]:
    parts = [torch.randn(3, 4), torch.randn(5, 4)]
    given = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    return through(lambda x: F.silu(x) * 2, given)


@case("channels last")
def channels_last() -> Iterable[Any]:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to(memory_format=torch.channels_last)
    return through(model, torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last))


@case("complex")
def complex_numbers() -> Iterable[Any]:
    return through(
        lambda x, y: torch.fft.fft(x * 2).abs() + torch.view_as_real(y * y).sum(),
        leaf(8),
        leaf(3, dtype=torch.complex64),
    )


@case("float8")
def float8() -> Iterable[Any]:
    return through(lambda x: (x.to(torch.float8_e4m3fn).to(torch.float32) * 2, x.to(torch.float8_e5m2)), torch.randn(9))


@case("constants")
def constants() -> Iterable[Any]:
    table = torch.arange(6.0)
    return through(lambda x: x * table + x.new_tensor([1.0, 2, 3, 4, 5, 6]), leaf(6))


# Randomness, precision


@case("dropout")
def dropout() -> Iterable[Any]:
    return through(mlp(nn.Dropout(0.5)), torch.randn(3, 8))


@case("random numbers")
def random_numbers() -> Iterable[Any]:
    return [
        *through(
            lambda x: x + torch.rand_like(x) + torch.randn(6, device=x.device) + torch.randint_like(x, 9), leaf(6)
        ),
        torch.rand(1),
    ]


@case("fallback_random")
def fallback_random() -> Iterable[Any]:
    with config.patch(fallback_random=True):
        return [*through(lambda x: F.dropout(x.cos(), 0.25), leaf(11)), torch.rand(1)]


@case("autocast and GradScaler")
def autocast() -> Iterable[Any]:
    return scaled_step(3, torch.bfloat16)


@case("deterministic algorithms")
def deterministic() -> Iterable[Any]:
    torch.use_deterministic_algorithms(True)
    try:
        return through(
            lambda x, i: torch.zeros(4).index_add(0, i, x) + x.new_empty(4).fill_(1),
            leaf(5),
            torch.tensor([0, 1, 1, 3, 0]),
        )
    finally:
        torch.use_deterministic_algorithms(False)


# Checkpointing and hooks


@case("activation checkpointing")
def checkpointing() -> Iterable[Any]:
    from torch.utils.checkpoint import checkpoint

    inner = mlp(nn.GELU())
    return through(lambda x: checkpoint(inner, x.sin(), use_reentrant=False), leaf(3, 8))


@case("selective checkpointing")
def selective() -> Iterable[Any]:
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    context = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    w, v = leaf(6, 6), leaf(6, 6)

    def f(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        out: Tensor = checkpoint(
            lambda x: torch.tanh(torch.sigmoid(x @ w) @ v), x, use_reentrant=False, context_fn=context
        )
        return out

    return through(f, leaf(2, 6), w, v)


@case("saved-tensor hooks")
def saved_hooks() -> Iterable[Any]:
    pack = torch.fx.symbolic_trace(lambda x: x.to(torch.bfloat16))
    unpack = torch.fx.symbolic_trace(lambda x: x.to(torch.float32))
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return through(lambda x: (x.sin() * x.cos()).exp(), leaf(13))


@case("compiled autograd")
def compiled_autograd() -> Iterable[Any]:
    model = mlp(nn.Tanh())
    with torch._dynamo.config.patch(compiled_autograd=True):
        loss = torch.compile(lambda x: model(x).sum())(torch.randn(3, 8))
        torch.compile(lambda: loss.backward())()
    return [loss, *(parameter.grad for parameter in model.parameters())]


@case("backward hooks on tensors")
def tensor_hooks() -> Iterable[Any]:
    def f(x: Tensor) -> Tensor:
        y = x.sin()
        y.register_hook(lambda grad: grad * 3)
        return y * 2

    return through(f, leaf(12))


@case("autograd.Function")
def autograd_function() -> Iterable[Any]:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * ctx.saved_tensors[0]

    return through(lambda x: Twice.apply(x.cos()), leaf(14))


# Higher-order operators


@case("cond")
def cond() -> Iterable[Any]:
    return through(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,)) + 1, leaf(8))


@case("while_loop")
def while_loop() -> Iterable[Any]:
    from torch._higher_order_ops import while_loop

    def f(i: Tensor, x: Tensor) -> Any:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x + x.sin()), (i, x))

    return through(f, torch.tensor(0), torch.randn(4))


@case("while_loop, training")
def loop_in_training() -> Iterable[Any]:
    """Its backward has a size, and an offset in memory, that only running the loop tells."""
    from torch._higher_order_ops import while_loop

    def f(count: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x.sin() * 1.5), (count, x))

    x = leaf(10, 6)
    _, out = torch.compile(f)(torch.tensor(3), x)
    out.sum().backward()
    return [out, x.grad]


@case("scan")
def scan() -> Iterable[Any]:
    from torch._higher_order_ops.scan import scan

    def step(carried: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return (carried + x).tanh(), (carried * x).clone()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return through(lambda first, xs: scan(step, first, xs), torch.randn(3), torch.randn(5, 3))


@case("associative_scan")
def associative_scan() -> Iterable[Any]:
    from torch._higher_order_ops.associative_scan import associative_scan

    return through(
        lambda x: associative_scan(lambda a, b: a * b + 0.5, x, 0, combine_mode="generic"), torch.randn(6, 2)
    )


@case("map")
def map_() -> Iterable[Any]:
    from torch._higher_order_ops.map import map as map_rows

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return through(lambda xs, y: map_rows(lambda x, y: x.sin() + y, xs, y), torch.randn(4, 3), torch.randn(3))


@case("FlexAttention")
def flex_attention() -> Iterable[Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 128, 128, torch.get_default_device().type)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j), block_mask=mask)

    with torch.no_grad():
        return through(attend, *(torch.randn(1, 2, 128, 16) for _ in range(3)))


@case("nested_compile_region")
def nested_compile_region() -> Iterable[Any]:
    @torch.compiler.nested_compile_region
    def gated(x: Tensor, y: Tensor) -> Tensor:
        return x.sin() * y

    return through(lambda x, y: gated(gated(x, y), y), leaf(15), leaf(15))


@case("effect tokens")
def effect_tokens() -> Iterable[Any]:
    from torch._higher_order_ops.print import print as print_in_graph

    def f(x: Tensor) -> Tensor:
        print_in_graph("a line of the graph")
        return x.sin() * 2

    return through(f, torch.randn(17))


# Custom operators


@torch.library.custom_op("inductord_features::twice", mutates_args=())
def twice(x: Tensor, by: float = 2.0) -> Tensor:
    return x * by


twice.register_fake(lambda x, by=2.0: torch.empty_like(x))
twice.register_autograd(lambda ctx, grad: (grad * 2, None))


@torch.library.custom_op("inductord_features::fill", mutates_args={"x"})
def fill(x: Tensor, value: float) -> None:
    x.fill_(value)


@torch.library.custom_op("inductord_features::add_up", mutates_args={"total"})
def add_up(total: Tensor, x: Tensor) -> Tensor:
    total.add_(x)
    return total * 2


add_up.register_fake(lambda total, x: torch.empty_like(total))


@torch.library.custom_op("inductord_features::noted", mutates_args=())
def noted(x: Tensor) -> Tensor:
    return x + 1


noted.register_fake(lambda x: torch.empty_like(x))


@case("custom operator")
def custom_operator() -> Iterable[Any]:
    return through(lambda x: torch.ops.inductord_features.twice(x.sin()).cos(), leaf(18))


library = torch.library.Library("inductord_features", "FRAGMENT")
library.define("tripled(Tensor x) -> Tensor")
library.define("tripled.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags=(torch.Tag.out_variant,))
library.impl("tripled", lambda x: x * 3, "CompositeExplicitAutograd")
library.impl("tripled.out", lambda x, *, out: out.copy_(x * 3), "CompositeExplicitAutograd")
torch.library.register_fake("inductord_features::tripled", torch.empty_like, lib=library)


@case("custom operator with an out variant")
def operator_with_out() -> Iterable[Any]:
    """Inductor may call the variant, in memory of its own choice."""
    return through(lambda x: torch.ops.inductord_features.tripled(x.sin()).cos(), torch.randn(17))


@case("custom operator that writes")
def writing_operator() -> Iterable[Any]:
    def f(x: Tensor) -> Tensor:
        y = x.sin()
        torch.ops.inductord_features.fill(y, 3.0)
        last = torch.ops.inductord_features.add_up(y[9:], x[9:])
        return y + x + last.sum()

    return through(f, torch.randn(19))


@torch.library.custom_op("inductord_features::picked", mutates_args=())
def picked(x: Tensor) -> Tensor:
    return x[x > 0]


@torch.library.custom_op("inductord_features::taken", mutates_args={"pool"})
def taken(pool: Tensor, x: Tensor) -> Tensor:
    pool.add_(1)
    return x[x > 0]


for operator in (picked, taken):
    operator.register_fake(lambda *given: given[-1].new_empty(torch.library.get_ctx().new_dynamic_size()))


@case("custom operators that make sizes")
def sized_operators() -> Iterable[Any]:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        some = torch.ops.inductord_features.picked(x * 2)
        return some * some.shape[0], torch.ops.inductord_features.taken(x, x[:9])

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return through(f, torch.randn(22), fullgraph=True)


@torch.library.custom_op("inductord_features::swap", mutates_args={"x", "y"})
def swap(x: Tensor, y: Tensor) -> None:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


@case("custom operator that writes to views, dynamic shapes")
def writing_views() -> Iterable[Any]:
    def f(x: Tensor) -> None:
        swap(x[0], x[1])

    outputs = []
    for functionalize in (False, True):  # the former and the present way to make such a call functional
        torch.compiler.reset()
        with torch._inductor.config.patch(enable_auto_functionalized_v2=functionalize):
            outputs.append(torch.randn(7, 7))
            torch.compile(f, dynamic=True)(outputs[-1])
    return outputs


@case("opaque object")
def opaque_object() -> Iterable[Any]:
    scale = opaque_objects.Scale(1.5)
    compiled = torch.compile(lambda x, scale: opaque_objects.scaled(x.sin(), scale) + 1)
    first = compiled(torch.ones(51), scale)
    scale.factor = 2.5
    return [first, compiled(torch.ones(51), scale), scale.uses]


@case("opaque value")
def opaque_value() -> Iterable[Any]:
    def f(x: Tensor, power: opaque_objects.Power) -> Tensor:
        return opaque_objects.raised(x.sin(), power) + 1

    compiled = torch.compile(f)
    return [compiled(torch.ones(52) * 2, opaque_objects.Power(exponent)) for exponent in (2, 3)]


@case("opaque value that is hoisted")
def hoisted_opaque_value() -> Iterable[Any]:
    def f(x: Tensor, label: opaque_objects.Label) -> Tensor:
        return opaque_objects.labelled(x.sin(), label) + 1

    compiled = torch.compile(f)
    return [compiled(torch.ones(53), opaque_objects.Label(text)) for text in ("one", "three")]


@case("custom operator with an effect")
def ordered_operator() -> Iterable[Any]:
    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    op = torch.ops.inductord_features.noted
    registered = _register_effectful_op(op.default, _EffectType.ORDERED)
    try:
        return through(lambda x: op(op(x.sin()) * 2).cos(), torch.randn(20))
    finally:
        registered.destroy()


# Shapes


@case("dynamic shapes")
def dynamic() -> Iterable[Any]:
    compiled = torch.compile(lambda x: (x.sin() @ x.t()).relu(), dynamic=True)
    return [compiled(torch.randn(size, 3)) for size in (4, 7, 9)]


@case("size that turns out to be fixed")
def fixed_while_traced() -> Iterable[Any]:
    """The backward of ``cumprod`` asks for the size itself."""
    compiled = torch.compile(lambda x: x.cumprod(1) * 3, dynamic=True)
    inputs = [leaf(4, size) for size in (5, 7)]
    for x in inputs:
        compiled(x).sum().backward()
    return [x.grad for x in inputs]


@case("sparse gradients")
def sparse_gradients() -> Iterable[Any]:
    """Of symbolic sizes: the graph holds sparse tensors, whose sizes must stay symbols on the way to a worker."""
    compiled = torch.compile(lambda table, index: F.embedding(index, table, sparse=True), dynamic=True)
    tables = [leaf(10, width) for width in (3, 9)]
    for table in tables:
        compiled(table, torch.randint(10, (2, table.shape[1]))).sum().backward()
    return [table.grad.to_dense() for table in tables if table.grad is not None]


@case("guards made while compiling")
def inner_guards() -> Iterable[Any]:
    """Of one graph with a symbolic size, code differs by what that size is: each compiles under guards of its own."""
    compiled = torch.compile(lambda x, y: x.repeat_interleave(2, 0).reshape(-1).softmax(-1) + y.sum(), dynamic=True)
    outputs = []
    for size in (5, 3000, 6):
        torch.compiler.reset()
        outputs.append(compiled(torch.randn(size, 3), torch.randn(3)))
    return outputs


@case("unbacked sizes")
def unbacked() -> Iterable[Any]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):

        def f(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
            return torch.arange(n.item()).float().sum() + x, x.nonzero() * 2

        return through(f, torch.randn(6), torch.tensor(5))


@case("unbacked sizes that turn out to be known")
def settled() -> Iterable[Any]:
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    torch._dynamo.decorators.mark_unbacked(y, 1)
    compiled = torch.compile(lambda x, y, number: x.sin() + y + x @ y * number)
    return [compiled(x, y, 5), compiled(x, y, 6)]


@case("symbolic float")
def symbolic_float() -> Iterable[Any]:
    compiled = torch.compile(lambda x, scale: x.sin() * scale, dynamic=True)
    given = torch.randn(5)
    return [compiled(given, scale) for scale in (0.5, 0.75, 1.25)]


# Options of Inductor


@case("freezing")
def freezing() -> Iterable[Any]:
    """Without oneDNN, whose packed weights PyTorch cannot serialise. Inductor decides at the first freeze of a process."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 5)).eval()
    with torch.backends.mkldnn.flags(enabled=False), config.patch(freezing=True), torch.no_grad():
        return through(model, torch.randn(2, 3, 6, 6))


@case("cpp_wrapper")
def cpp_wrapper() -> Iterable[Any]:
    with config.patch(cpp_wrapper=True):
        return through(lambda x: (x.sin() * 2).relu(), leaf(21))


@case("compiled optimizer")
def compiled_optimizer() -> Iterable[Any]:
    model = mlp(nn.ReLU())
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01))
    step = torch.compile(optimizer.step)
    for _ in range(2):
        model(torch.randn(3, 8)).sum().backward()
        step()
    return list(model.parameters())


class Doubling(CustomGraphPass):
    """Turns sine into cosine."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default

    def uuid(self) -> Any:
        return get_hash_for_files((__file__,))


class DoublingBefore(Doubling):
    """The same on what Dynamo captured."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in graph.find_nodes(op="call_method", target="sin"):
            node.target = "cos"


@case("custom pass before gradients are made")
def pass_before_gradients() -> Iterable[Any]:
    with config.patch(pre_grad_custom_pass=DoublingBefore()):
        return through(lambda x: x.sin() * 5, leaf(42))


@case("custom pass of the script")
def custom_pass() -> Iterable[Any]:
    with config.patch(post_grad_custom_pre_pass=Doubling()):
        return through(lambda x: x.sin() * 3, torch.randn(22))


@case("custom pass without identity")
def nameless_pass() -> Iterable[Any]:
    with config.patch(post_grad_custom_pre_pass=lambda graph: None):
        return through(lambda x: x.sin() * 4, torch.randn(23))


@case("max-autotune")
def max_autotune() -> Iterable[Any]:
    return through(mlp(nn.ReLU()), torch.randn(3, 8), mode="max-autotune")


@case("reduce-overhead")
def reduce_overhead() -> Iterable[Any]:
    return through(mlp(nn.Sigmoid()), torch.randn(3, 8), mode="reduce-overhead")


@case("quantised linear")
def quantised() -> Iterable[Any]:
    weight = torch.randint(-128, 127, (8, 16), dtype=torch.int8)
    return through(
        lambda x: torch._int_mm(x, weight).float() * 0.02, torch.randint(-128, 127, (32, 8), dtype=torch.int8)
    )


@case("torchao int8 weights")
def torchao_int8() -> Iterable[Any]:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = mlp(nn.ReLU()).eval()
    quantize_(model, Int8WeightOnlyConfig())
    with torch.no_grad():
        return through(model, torch.randn(3, 8))


# Other ways to Inductor


def waved(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return ((x.sin() @ y).relu(),)


@case("graph that Dynamo did not make")
def without_dynamo() -> Iterable[Any]:
    inputs = [torch.randn(6, 9), torch.randn(9, 6)]
    graph = torch.fx.experimental.proxy_tensor.make_fx(waved)(*inputs)
    x = leaf(9, 5)
    y = aot_function(waved, compile_fx_inner, compile_fx_inner, decompositions=select_decomp_table())(inputs[0], x)[0]
    y.sum().backward()
    return [*torch._inductor.compile(graph, inputs)(*inputs), y, x.grad]


@case("aot_compile")
def compiled_ahead() -> Iterable[Any]:
    inputs = torch.randn(6, 11), torch.randn(11, 6)
    compiled: Any = torch.compile(waved, fullgraph=True)
    ahead = getattr(compiled, "aot_compile", None)  # from torch 2.12 on
    return list((compiled if ahead is None else ahead((inputs, {})))(*inputs))


if __name__ == "__main__":
    main(__doc__)
