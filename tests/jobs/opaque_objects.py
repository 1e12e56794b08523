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


class Power(OpaqueBase):
    """Of equal ones, each is as good as the other: it stands in a graph as it is."""

    def __init__(self, exponent: int) -> None:
        self.exponent = exponent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Power) and self.exponent == other.exponent

    def __hash__(self) -> int:
        return hash(self.exponent)

    def __fx_repr__(self) -> tuple[str, dict[str, Any]]:
        return f"Power({self.exponent})", {"Power": Power}


class Label(OpaqueBase):
    """A value that graphs are handed: they are compiled once for all of them."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Label) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __fx_repr__(self) -> tuple[str, dict[str, Any]]:
        return f"Label({self.text!r})", {"Label": Label}


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
    return x**power.exponent


@raised.register_fake
def _(x: Tensor, power: Power) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("inductord_opaque::labelled", mutates_args=())
def labelled(x: Tensor, label: Label) -> Tensor:
    """Plus the length of ``label``."""
    return x + len(label.text)


@labelled.register_fake
def _(x: Tensor, label: Label) -> Tensor:
    return torch.empty_like(x)
