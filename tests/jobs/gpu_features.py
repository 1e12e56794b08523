"""What only a GPU has, each in a small function, compiled and run as a user would. It knows nothing of inductord.

python gpu_features.py --device cuda [NAME ...]

Prints what ``features.py`` prints. Shapes are small; that each kind of kernel is there matters.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
import user_kernels
from cases import case, leaf, main, mlp, scaled_step, through
from torch import Tensor, nn
from torch._inductor import config

STEADY = {"deterministic": True}
"""Reductions add up in the order that the fastest of several kernels has; which is that may differ from run to run. With this,
none is measured."""


def trained(model: nn.Module, batches: Iterable[Tensor], **how: Any) -> list[Any]:
    """Train a step on each batch with SGD; losses, then parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, **how)
    losses = []
    for batch in batches:
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return [*losses, *model.parameters()]


# Triton kernels of the user


@case("Triton kernels of the user")
def kernels_of_the_user() -> Iterable[Any]:
    return through(user_kernels.run, torch.randn(300))


@case("Triton kernels of the user, training")
def kernels_in_training() -> Iterable[Any]:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return user_kernels.scaled(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return user_kernels.scaled(grads[0], "none")

    return through(lambda x: Scaled.apply(x.sin()).cos(), leaf(301))


# Attention and matrix products


@case("FlexAttention, training")
def flex_attention() -> Iterable[Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, "cuda")

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.01, block_mask=mask)

    return through(attend, *(leaf(1, 2, 256, 64, dtype=torch.bfloat16) for _ in range(3)))


@case("attention")
def attention() -> Iterable[Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q.sin(), k, v, is_causal=True).cos()

    return through(attend, *(leaf(1, 2, 128, 64, dtype=torch.bfloat16) for _ in range(3)))


@case("attention that draws numbers again, checkpointed")
def drawn_again() -> Iterable[Any]:
    from torch.utils.checkpoint import checkpoint

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return F.scaled_dot_product_attention(q.sin(), k, v, dropout_p=0.3).cos()

    q, k, v = (leaf(1, 2, 128, 64, dtype=torch.bfloat16) for _ in range(3))
    return through(lambda q, k, v: checkpoint(attend, q, k, v, use_reentrant=False), q, k, v)


@case("float8 matrix product")
def float8() -> Iterable[Any]:
    scale = torch.tensor(0.5)

    def multiply(x: Tensor, w: Tensor) -> Tensor:
        left, right = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn).t()
        product: Tensor = torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)
        return product.relu()

    with torch.no_grad():
        return through(multiply, torch.randn(32, 64), torch.randn(16, 64))


@case("matrix products that may be padded")
def padded() -> Iterable[Any]:
    return through(lambda x, w: (x @ w).relu(), leaf(515, 513), leaf(513, 517))


@case("float16 autocast and GradScaler")
def float16() -> Iterable[Any]:
    return scaled_step(24, torch.float16)


@case("kernels tuned while they are compiled")
def tuned_while_compiled() -> Iterable[Any]:
    with config.patch({"triton.autotune_at_compile_time": True}):
        return through(lambda x: (x.sin() * 2).cos(), leaf(41, 100))


# CUDA graphs


@case("CUDA graphs over several steps")
def cuda_graphs() -> Iterable[Any]:
    model = mlp(nn.GELU(), nn.Dropout(0.5))
    return trained(model, [torch.randn(25, 8) for _ in range(5)], mode="reduce-overhead")


@case("CUDA graphs, dynamic shapes")
def dynamic_cuda_graphs() -> Iterable[Any]:
    batches = [torch.randn(size, 8) for size in (26, 27, 28, 26, 27)]
    with config.patch(STEADY):
        return trained(mlp(nn.Tanh()), batches, mode="reduce-overhead", dynamic=True)


@case("CUDA graphs, partitioned")
def partitioned() -> Iterable[Any]:
    def f(x: Tensor) -> Tensor:
        y = x.sin() * 2
        on_cpu = y.cpu() + 1
        return on_cpu.to(x.device) @ y

    with config.patch(graph_partition=True), torch.no_grad():
        compiled = torch.compile(f, mode="reduce-overhead")
        return [compiled(torch.randn(29, 29)).clone() for _ in range(4)]


@case("CUDA graphs that write to inputs")
def writing_cuda_graphs() -> Iterable[Any]:
    total = torch.zeros(30)

    def f(x: Tensor) -> Tensor:
        total.add_(x.sum())
        return x * total

    with torch.no_grad():
        compiled = torch.compile(f, mode="reduce-overhead")
        return [*(compiled(torch.ones(30) * step).clone() for step in range(5)), total]


# What code generation does on GPUs only


@case("a number on the CPU among inputs")
def number_on_cpu() -> Iterable[Any]:
    return through(lambda x, y: x.sin() * y, leaf(31), torch.tensor(0.5, device="cpu"))


@case("a part on the CPU")
def part_on_cpu() -> Iterable[Any]:
    return through(lambda x, y: (x.sin() * 2, y.cos() + 1), leaf(32), torch.randn(33, device="cpu"))


@case("checked indices")
def checked_indices() -> Iterable[Any]:
    return through(lambda table, at: table[at].exp(), leaf(34, 5), torch.randperm(34))


@case("reductions")
def reductions() -> Iterable[Any]:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(F.layer_norm(x, (x.shape[1],)), y) + x.amax()

    with config.patch(STEADY):
        return through(f, leaf(35, 5000), torch.randint(5000, (35,)))


@case("sort")
def sort() -> Iterable[Any]:
    return through(lambda x: torch.sort(x * 2, stable=True), torch.randn(36, 64))


@case("scan of a row")
def cumulative() -> Iterable[Any]:
    return through(lambda x: x.cumsum(1).cos(), leaf(37, 4096))


@case("combined kernels")
def combined() -> Iterable[Any]:
    with config.patch(combo_kernels=True):
        return through(lambda x, y: (x.sin() + 1, y.cos() * 2), leaf(38), leaf(39, 7))


@case("coordinate descent")
def coordinate_descent() -> Iterable[Any]:
    return through(lambda x: (x.sin() * 2).tanh(), leaf(40, 1000), options={"coordinate_descent_tuning": True})


if __name__ == "__main__":
    main(__doc__)
