"""Classes of a user that graphs take without looking into them, and operators that do."""

from typing import Any

import torch
from torch import Tensor
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase


class Scale(OpaqueBase):
    """Changes while the job runs: a graph is handed it."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.uses = 0


class Value(OpaqueBase):
    """Of equal ones, each is as good as the other."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.held == other.held

    def __hash__(self) -> int:
        return hash(self.held)

    def __fx_repr__(self) -> tuple[str, dict[str, Any]]:
        name = type(self).__name__
        return f"{name}({self.held!r})", {name: type(self)}


class Power(Value):
    """Stands in a graph as it is."""


class Label(Value):
    """Graphs are handed it: they are compiled once for all of them."""


register_opaque_type(Scale, typ="reference")
register_opaque_type(Power, typ="value")
register_opaque_type(Label, typ="value", hoist=True)


@torch.library.custom_op("inductord_opaque::scaled", mutates_args=())
def scaled(x: Tensor, scale: Scale) -> Tensor:
    """Times the factor of ``scale``, which counts that."""
    scale.uses += 1
    return x * scale.factor


@scaled.register_fake
def _(x: Tensor, scale: Scale) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("inductord_opaque::raised", mutates_args=())
def raised(x: Tensor, power: Power) -> Tensor:
    """To the power of ``power``."""
    return x**power.held


@raised.register_fake
def _(x: Tensor, power: Power) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("inductord_opaque::labelled", mutates_args=())
def labelled(x: Tensor, label: Label) -> Tensor:
    """Plus the length of ``label``."""
    return x + len(label.held)


@labelled.register_fake
def _(x: Tensor, label: Label) -> Tensor:
    return torch.empty_like(x)
