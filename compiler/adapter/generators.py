"""Generators of random numbers that a graph takes as inputs: those whose state AOTAutograd keeps, to draw once more in
backward what was drawn in forward.

Generated code hands them on, and compiling asks a generator for its device only. So that is what travels: the rank's own
generator stays with the rank, and a worker needs no such device.
"""

from typing import Any

import torch


def reduced(value: object) -> Any:
    """What pickle writes of a generator, the same in every process that has the graph; None for everything else."""
    return (standing_in, (value.device,)) if isinstance(value, torch.Generator) else None


def standing_in(device: torch.device) -> torch.Generator:
    """Stands on the worker for a generator of ``device``."""
    made = _StandIn()
    made.device = device
    return made


class _StandIn(torch.Generator):
    """A generator of the CPU, which every process can make, that says that it is of another device."""

    device = torch.device("cpu")
