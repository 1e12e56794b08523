"""Where Inductor measures whether padding a product of matrices pays, and how that is decided once for all ranks.

Each rank would measure, before its graph comes to the seam (``torch/_inductor/fx_passes/pad_mm.py``). Two ranks, or two jobs,
that decide otherwise have other graphs from there on, and share nothing.
"""

import contextlib
import contextvars
import dataclasses
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any

import torch
from torch._inductor import config as _config
from torch._inductor.fx_passes import pad_mm as _pad_mm

from inductord.compiler.adapter import device, tuned
from inductord.v1.tuning_pb2 import TuningRecord

_PAD, _LEAVE = "pad", "leave"

_lock = threading.Lock()
_installed = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    """A product of which Inductor wants to know, and what measures it."""

    factors: list[torch.Tensor]
    measure: Callable[[], bool]


_asked: contextvars.ContextVar[_Question | None] = contextvars.ContextVar("_asked", default=None)
"""The product that is decided now. None while this rank measures it."""


def install(choose: tuned.Choose) -> None:
    """Ask ``choose`` about every such product of this process from now on. Once per process; later calls change nothing."""
    global _installed
    with _lock:
        if _installed:
            return
        module: Any = _pad_mm
        decide, known = module._should_pad, module.get_cached_should_pad
        measure = inspect.unwrap(decide)  # what some versions remember of an answer is not wanted while measuring

        def should_pad(match: Any, mat1: Any, mat2: Any, *args: Any, **kwargs: Any) -> bool:
            question = _Question([mat1, mat2], lambda: bool(measure(match, mat1, mat2, *args, **kwargs)))
            with _asking(question):
                return bool(decide(match, mat1, mat2, *args, **kwargs))

        def get_cached_should_pad(key: str) -> Any:
            # Inductor looks here when nothing but measuring is left.
            if (question := _asked.get()) is None:
                return known(key)
            try:
                pads = _chosen(choose, key, question)
            except device.NotDescribed:  # graphs of such devices are each rank's own
                return known(key)
            module.set_cached_should_pad(key, pads)  # for when there is no daemon to ask
            return pads

        module._should_pad, module.get_cached_should_pad = should_pad, get_cached_should_pad
        _installed = True


def _chosen(choose: tuned.Choose, key: str, question: _Question) -> bool:
    def tune() -> TuningRecord:
        with _asking(None):
            return TuningRecord(choice=_PAD if question.measure() else _LEAVE)

    on = question.factors[0].device
    described = [
        "padding",
        key,
        # The key may name symbols; what is measured is what they stand for.
        [_hint(size) for factor in question.factors for size in (*factor.shape, *factor.stride())],
        _config.post_grad_fusion_options.get("shape_padding_multiplier"),
        _config.deterministic,
        _config.run_autoheuristic("pad_mm"),
    ]
    return choose(tuned.choice_key(described, on.type), tuned.uuid(on.index), tune).choice == _PAD


def _hint(size: int | torch.SymInt) -> int | None:
    return size.node.hint if isinstance(size, torch.SymInt) else size


@contextlib.contextmanager
def _asking(question: _Question | None) -> Generator[None]:
    before = _asked.set(question)
    try:
        yield
    finally:
        _asked.reset(before)
