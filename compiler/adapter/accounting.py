"""PyTorch's own account of what compiling cost this process: time in Dynamo and AOTAutograd, recompiles, first launches.

PyTorch keeps these sums anyhow (``torch._dynamo.utils.calculate_time_spent`` prints the times), so reading them costs
microseconds. ``torch._dynamo.reset`` clears them; what is given here never goes back.
"""

import dataclasses
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from torch._dynamo import convert_frame as _convert_frame
from torch._dynamo import utils as _utils


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """Since the start of the process. ``dynamo_seconds``: without what backends took. ``aot_seconds``: AOTAutograd with the
    graph passes before Inductor, lazy backward included. ``recompiles``: frames compiled again. ``guard_failures``: compiled
    versions of a frame whose guards did not hold when it was compiled again.

    A frame's times are in it once the frame is done.
    """

    dynamo_seconds: float = 0.0
    aot_seconds: float = 0.0
    recompiles: int = 0
    guard_failures: int = 0


class Accounting:
    """Reads PyTorch's sums. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: dict[str, float] = {}
        self._sums: dict[str, float] = {}

    def read(self) -> Account:
        """The account now."""
        with self._lock:
            spent = {name: self._grown(name, nanoseconds / 1e9) for name, nanoseconds in _nanoseconds().items()}
            frame, backend = spent.get("entire_frame_compile", 0.0), spent.get("backend_compile", 0.0)
            inductor, backward = spent.get("inductor_compile", 0.0), spent.get("entire_backward_compile", 0.0)
            return Account(
                dynamo_seconds=self._risen("dynamo", frame - backend),
                # Inductor's part of a frame that is under way is there before the whole; so this may seem to fall.
                aot_seconds=self._risen("aot", backend + backward - inductor),
                recompiles=int(self._grown("recompiles", _recompiles())),
                guard_failures=int(self._grown("guard failures", _guard_failures())),
            )

    def _grown(self, name: str, now: float) -> float:
        """The sum of all growth of a value that is sometimes reset to zero."""
        before = self._before.get(name, 0.0)
        self._before[name] = now
        self._sums[name] = self._sums.get(name, 0.0) + (now - before if now >= before else now)
        return self._sums[name]

    def _risen(self, name: str, now: float) -> float:
        """The highest value so far."""
        self._sums[name] = max(self._sums.get(name, 0.0), now)
        return self._sums[name]


def _nanoseconds() -> dict[str, float]:
    return dict(_utils.cumulative_time_spent_ns)


def _recompiles() -> int:
    return sum(max(0, count - 1) for count in list(_convert_frame.FRAME_COMPILE_COUNTER.values()))


def _guard_failures() -> int:
    return sum(len(reasons) for reasons in list(_utils.guard_failures.values()))


def time_first_launch(compiled: Any, launched: Callable[[float], None]) -> None:
    """Have ``launched`` told, once, the host seconds of the first call of a compiled graph.

    The first call loads kernels, and tunes those that have several configurations. What is no compiled graph of Inductor is
    left as it is.
    """
    run = getattr(compiled, "current_callable", None)
    if run is None:
        return
    first = threading.Lock()
    done = False

    @functools.wraps(run)
    def timed(inputs: Any) -> Any:
        nonlocal done
        if done or not first.acquire(blocking=False):
            return run(inputs)
        done = True
        start = time.perf_counter()
        try:
            return run(inputs)
        finally:
            launched(time.perf_counter() - start)
            if compiled.current_callable is timed:
                compiled.current_callable = run

    compiled.current_callable = timed
