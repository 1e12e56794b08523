"""Memory formats in pickles. PyTorch tells pickle their name, and pickle looks for a module that has it: the first of this
process. That is ``torch._utils`` as a rule, but a module that was entered before PyTorch was and imports it comes before.
Another process may not have that one, and would make another key."""

from typing import Any

import torch


def reduced(value: object) -> Any:
    """What pickle writes of a memory format, wherever it was found; None for everything else."""
    if type(value) is not torch.memory_format:
        return None
    return named, (str(value).removeprefix("torch."),)


def named(name: str) -> torch.memory_format:
    """The format of this name, such as ``channels_last``."""
    found: torch.memory_format = getattr(torch, name)
    return found
