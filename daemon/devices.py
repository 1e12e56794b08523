"""Whether a graph that measures on a device goes to a worker that has one, or is compiled by the rank that asks. Pure.

A pool says how many devices there are, not of which model: what its workers cannot serve is found out by trying, and then
left alone for a while.
"""

from collections.abc import Callable

from inductord.daemon.orders import Order
from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.compiler_pb2 import (
    FAILURE_KIND_COMPILE_ERROR,
    FAILURE_KIND_POOL_UNAVAILABLE,
    FAILURE_KIND_TOO_LARGE,
    FAILURE_KIND_UNLOADABLE,
    CompileFailure,
)

_REST_SECONDS = 300.0
# Facts about the graph: a rank would meet the same.
_FINAL = frozenset({FAILURE_KIND_COMPILE_ERROR, FAILURE_KIND_TOO_LARGE})
# Facts about the pool: no worker has room, or none has this model.
_OF_THE_POOL = frozenset({FAILURE_KIND_POOL_UNAVAILABLE, FAILURE_KIND_UNLOADABLE})


class WorkerDevices:
    """``status``: of the pool. ``clock``: seconds."""

    def __init__(self, status: Callable[[], PoolStatus], clock: Callable[[], float]) -> None:
        self._status = status
        self._clock = clock
        # Keys and models of accelerators, until when they are left alone; in the order of their ends.
        self._resting: dict[str, float] = {}

    def measures(self, order: Order) -> bool:
        """Whether a worker shall compile the graph of ``order``."""
        return order.needs_device and not self._rests(order) and self._status().devices > 0

    def rank_shall_compile(self, order: Order, failure: CompileFailure) -> bool:
        """Whether a rank shall compile after workers failed so. True at most once in a while for each key."""
        if not order.needs_device or failure.kind in _FINAL or order.key in self._resting:
            return False
        self._rest(order.key)
        if failure.kind in _OF_THE_POOL:
            self._rest(order.toolchain.accelerator)
        return True

    def _rests(self, order: Order) -> bool:
        now = self._clock()
        while self._resting and next(iter(self._resting.values())) <= now:
            del self._resting[next(iter(self._resting))]
        return order.key in self._resting or order.toolchain.accelerator in self._resting

    def _rest(self, what: str) -> None:
        self._resting.pop(what, None)
        self._resting[what] = self._clock() + _REST_SECONDS
