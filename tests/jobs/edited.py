"""A script whose author changes what a part of it does, and none of its names. It knows nothing of inductord.

python edited.py FACTOR KIND...

Prints what comes out by kind, all of it decided by FACTOR.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._inductor import decomposition, pattern_matcher
from torch._inductor.fx_passes import joint_graph
from torch.utils import _pytree as pytree

LIBRARY = torch.library.Library("edited", "DEF")
KINDS: dict[str, Callable[[float], Tensor]] = {}


def kind(function: Callable[[float], Tensor]) -> Callable[[float], Tensor]:
    KINDS[function.__name__] = function
    return function


@kind
def composition(factor: float) -> Tensor:
    """Of an operator."""
    LIBRARY.define("composed(Tensor x) -> Tensor")
    LIBRARY.impl("composed", lambda x: x * factor, "CompositeImplicitAutograd")
    return torch.compile(lambda x: torch.ops.edited.composed(x.sin()).cos())(torch.ones(3))


@kind
def gradient(factor: float) -> Tensor:
    """Of an operator."""

    @torch.library.custom_op("edited::opaque", mutates_args=())
    def opaque(x: Tensor) -> Tensor:
        return x * 2

    opaque.register_fake(torch.empty_like)
    opaque.register_autograd(lambda ctx, grad: grad * factor)
    x = torch.ones(4, requires_grad=True)
    torch.compile(lambda x: opaque(x.sin()).cos())(x).sum().backward()
    assert x.grad is not None
    return x.grad


class Scaled(torch.Tensor):
    """Has another sine."""

    factor = 1.0

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Scaled":
        made: Scaled = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        return made

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, meta: Any, size: Any, stride: Any) -> "Scaled":
        return Scaled(inner["inner"])

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Scaled({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(Scaled, lambda each: each.inner, (args, kwargs or {}))
        out = func(*args, **kwargs)
        if func is torch.ops.aten.sin.default:
            out = out * cls.factor
        return pytree.tree_map_only(Tensor, Scaled, out)


@kind
def subclass(factor: float) -> Tensor:
    Scaled.factor = factor
    made: Any = torch.compile(lambda x: x.sin().cos())(Scaled(torch.ones(5)))
    out: Tensor = made.inner
    return out


@kind
def decomposed(factor: float) -> Tensor:
    decomposition.decompositions[torch.ops.aten.sinh.default] = lambda x: x * factor
    return torch.compile(lambda x: torch.sinh(x) + 1)(torch.ones(6))


@kind
def pattern(factor: float) -> Tensor:
    joint_graph.lazy_init()
    pattern_matcher.register_replacement(
        lambda x: x.sin().cos(),
        lambda x: x.sin() * factor,
        [torch.empty(3)],
        pattern_matcher.fwd_only,
        joint_graph.pass_patterns[1],
    )
    return torch.compile(lambda x: x.sin().cos() + 1)(torch.ones(7))


@kind
def above_autograd(factor: float) -> Tensor:
    """A kernel for an operator of PyTorch."""
    kernels = torch.library.Library("aten", "IMPL")
    kernels.impl("sinh", lambda x: x * factor, "AutogradCPU")
    return torch.compile(lambda x: torch.sinh(x).cos())(torch.ones(8, requires_grad=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("factor", type=float)
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    args = parser.parse_args()
    print(json.dumps({name: KINDS[name](args.factor)[0].item() for name in args.kinds}))


main()
