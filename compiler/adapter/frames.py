"""When Dynamo begins and ends with a frame, and when AOTAutograd makes a backward graph that it had left until now.

PyTorch calls back at the outermost begin and end (``torch._dynamo.callback``); frames inside one another are one. The first
frame of a process has begun when its graph has this module loaded: when it did, PyTorch's context of metrics says.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from torch._dynamo import callback
from torch._dynamo.utils import get_metrics_context

from inductord.v1.compiler_pb2 import StageKind

log = logging.getLogger("inductord")

Traced = Callable[[StageKind, str, float, float], None]
"""Told the kind, PyTorch's compile id, the start in seconds since 1970, and the seconds that it took."""

_KINDS = {"DYNAMO": StageKind.STAGE_KIND_TRACE, "LAZY_BACKWARD": StageKind.STAGE_KIND_LAZY_BACKWARD}


class _Watch:
    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._began: tuple[float, float, Any] | None = None

    def begun(self, start_unix: float) -> None:
        """A frame had begun before anybody watched."""
        self._began = (start_unix, time.perf_counter() - (time.time() - start_unix), None)

    def begin(self, args: Any) -> None:
        self._began = (time.time(), time.perf_counter(), args)

    def end(self, args: Any) -> None:
        began, self._began = self._began, None
        if began is None:
            return
        start_unix, start, first = began
        first = args if first is None else first
        kind = _KINDS.get(getattr(getattr(first, "callback_trigger", None), "name", ""))
        if kind is not None:
            self._traced(kind, str(getattr(first, "compile_id", "")), start_unix, time.perf_counter() - start)


def watch(traced: Traced) -> None:
    """Tell ``traced`` of every frame from now on, and of the one that is under way. PyTorch serialises the calls with a lock of
    its own."""
    told = _Watch(traced)
    context = get_metrics_context()
    if context.in_progress() and (start_ns := getattr(context, "_start_time_ns", 0)):
        told.begun(start_ns / 1e9)
    callback.on_compile_start(told.begin)
    callback.on_compile_end(told.end)
