"""What the key (``fingerprint``) and the wire (``wire``) write alike: the same in every process that has the graph."""

from typing import Any

import torch

from inductord.compiler.adapter import generators, memory_formats, opaque
from inductord.compiler.adapter.placement import Placement


def reduced(value: object, where: Placement) -> Any:
    """What pickle writes of this rank's own device, of an opaque object, of a generator, and of a memory format; None
    for everything else."""
    accelerator = where.accelerator
    if type(value) is torch.device and accelerator and value.type == accelerator.type and value.index == where.own:
        return torch.device, (value.type, where.travels_as)
    return opaque.reduced(value) or generators.reduced(value) or memory_formats.reduced(value)
