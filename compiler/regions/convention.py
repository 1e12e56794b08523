"""How the compiled graphs of one region are called: what goes in, what comes out, and where each value comes from. No torch.

Made from AOTAutograd's account of the region (``adapter.aot``), read by whoever composes regions (``program``).
"""

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

Compiled = Callable[[list[Any]], Sequence[Any]]
"""A compiled graph. It empties the list that it is given."""


class Kind(enum.StrEnum):
    """Where a value that backward needs comes from."""

    INPUT = "input"
    OUTPUT = "output"
    NEW = "new"


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """``INPUT``, ``OUTPUT``: the region's input or output number ``index``. ``NEW``: number ``index`` of all that the forward
    graph returns."""

    kind: Kind
    index: int


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The layout that a backward graph was compiled for. ``size`` and ``stride`` in elements where both are known; else
    ``memory_format`` names one of PyTorch's, such as ``"channels_last"``."""

    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    memory_format: str


@dataclasses.dataclass(frozen=True, slots=True)
class Backward:
    """What backward is called with, in this order: sizes, saved tensors, then a gradient for each of ``tangents``.

    ``symints``, ``saved``: where they come from. ``donated``: indices of ``saved`` whose memory backward may use again.
    ``tangents``: indices of the region's outputs. ``layouts``: of their gradients. ``gradients``: for each input of the
    region, whether backward returns a gradient.
    """

    symints: tuple[Origin, ...]
    saved: tuple[Origin, ...]
    donated: frozenset[int]
    tangents: tuple[int, ...]
    layouts: tuple[Layout, ...]
    gradients: tuple[bool, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Convention:
    """``outputs``: how many values the region returns, first of all that its forward graph returns. ``mutated``: inputs that
    the forward graph overwrites; ``noticed``: those of them of which autograd is told. ``backward``: None when nothing in the
    region is trained."""

    inputs: int
    outputs: int
    mutated: tuple[int, ...]
    noticed: tuple[int, ...]
    backward: Backward | None
