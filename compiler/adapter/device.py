"""The accelerator that this process calls its own: a real one on a rank, one that is played on a worker (``playing``).

CUDA devices are described. ROCm (also "cuda" to PyTorch) and XPU are not yet: their graphs are compiled by the rank. To add
one, say here what to read from it, and in ``playing`` what to answer.
"""

import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Generator

import torch

from inductord.compiler.accelerator import Accelerator

# Of one card of many, and of no interest to code: which one it is, and how fast it happens to run.
_NOT_OF_THE_MODEL = frozenset(
    {"uuid", "pci_bus_id", "pci_device_id", "pci_domain_id", "clock_rate", "memory_clock_rate", "memory_bus_width"}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """The device that a process calls its own: its kind (``torch.device.type``) and index."""

    type: str
    index: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Played:
    accelerator: Accelerator
    index: int


_PLAYED: contextvars.ContextVar[_Played | None] = contextvars.ContextVar("inductord_played_device", default=None)


class NotDescribed(Exception):
    """There is no description of such a device; the message says which."""


def own() -> Own | None:
    """The accelerator that this process uses, or plays; None without one."""
    if (played := _PLAYED.get()) is not None:
        return Own(played.accelerator.type, played.index)
    if not torch.accelerator.is_available():
        return None
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        return None
    return Own(accelerator.type, torch.accelerator.current_device_index())


def describe(device_type: str) -> Accelerator:
    """The description of this process's own accelerator, played or real.

    Raises:
        NotDescribed: this process has none of this type, or it is of a kind that is not described.
    """
    if (played := _PLAYED.get()) is not None:
        if played.accelerator.type != device_type:
            raise NotDescribed(f"the described device is {played.accelerator.type}, asked for {device_type}")
        return played.accelerator
    mine = own()
    if mine is None or mine.type != device_type:
        raise NotDescribed(f"this process has no {device_type} device")
    return _describe(device_type, mine.index)


@functools.cache
def _describe(device_type: str, index: int) -> Accelerator:
    if device_type != "cuda" or torch.version.hip is not None:
        raise NotDescribed(f"{device_type}{' of ROCm' if torch.version.hip else ''} is not described")
    given = torch.cuda.get_device_properties(index)
    properties = {
        name: value
        for name in dir(given)
        if not name.startswith("_")
        and name not in _NOT_OF_THE_MODEL
        and isinstance(value := getattr(given, name), (bool, int, float, str))
    }
    major, minor = torch.cuda.get_device_capability(index)
    return Accelerator(
        type=device_type,
        name=torch.cuda.get_device_name(index),
        arch=str(major * 10 + minor),
        runtime=f"cuda {torch.version.cuda}",
        properties=properties,
        # Ranks that see one card each and ranks that see all of the node's mean the same by their own.
        count=torch.cuda.device_count(),
    )


@contextlib.contextmanager
def played(accelerator: Accelerator, index: int) -> Generator[None]:
    """Inside, ``own`` and ``describe`` speak of this accelerator. For ``playing`` only."""
    token = _PLAYED.set(_Played(accelerator, index))
    try:
        yield
    finally:
        _PLAYED.reset(token)
