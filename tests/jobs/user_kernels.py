"""Triton kernels of the user: plain, autotuned, and within an operator of ``torch.library.triton_op``."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

OFFSET = tl.constexpr(3)


@triton.jit
def shifted(x, by: tl.constexpr):
    return x * 2 + by


@triton.jit
def scale(x_ptr, out_ptr, n, factor, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    """What a user writes: "quotes", a backslash \\ and a newline \n in the docstring."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    tl.store(out_ptr + at, shifted(x, OFFSET) * factor, mask=at < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=4)],
    key=["n"],
    restore_value=["x_ptr"],
)
@triton.jit
def accumulate(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n)
    tl.store(x_ptr + at, total, mask=at < n)


def scaled(x: Tensor, activation: str = "relu") -> Tensor:
    out = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 0.5, ACTIVATION=activation, BLOCK=64)
    return out


def accumulated(x: Tensor) -> Tensor:
    total = x.clone()
    accumulate[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](total, x.sin(), x.numel())
    return total


@triton_op("inductord_tests::scaled", mutates_args={})
def scaled_op(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    wrap_triton(scale)[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 0.25, ACTIVATION="none", BLOCK=64)
    return out


def run(x: Tensor) -> Tensor:
    """All of them, and kernels of Inductor's own around them."""
    return accumulated(scaled(x.cos())) + scaled_op(x + 1)
