"""The account of what was served: one place that counts, for the status, the metrics and the jobs alike.

It observes and never decides. Everything runs on the event loop, so plain numbers suffice.
"""

from collections.abc import Mapping

from inductord.daemon.jobs import JobTable
from inductord.daemon.metrics.families import Metrics, Result, Role
from inductord.daemon.orders import Order
from inductord.v1.admin_pb2 import Totals
from inductord.v1.bridge_pb2 import ORIGIN_COMPILED
from inductord.v1.compiler_pb2 import SERVED_HIT, SERVED_JOINED, SERVED_LED, CompileFailure, Served
from inductord.worker.pool import Compiled, Outcome

_RESULTS = {SERVED_HIT: Result.HIT, SERVED_JOINED: Result.JOINED, SERVED_LED: Result.LED}
_ROLES = {SERVED_HIT: Role.HIT, SERVED_JOINED: Role.JOINER, SERVED_LED: Role.LEADER}


class Ledger:
    """Totals since the start of the daemon."""

    def __init__(self, metrics: Metrics, jobs: JobTable) -> None:
        self._metrics = metrics
        self._jobs = jobs
        self._totals = Totals()

    @property
    def totals(self) -> Totals:
        """A copy of the sums."""
        copy = Totals()
        copy.CopyFrom(self._totals)
        return copy

    def opened(self) -> None:
        """A request came."""
        self._totals.requests += 1

    def ended(self, result: Result) -> None:
        """A request ended without an artifact; ``served`` counts the others."""
        self._metrics.requests.labels(result).inc()

    def ready(self, order: Order, served: Served, waited: float) -> None:
        """An artifact is there for a request that waited ``waited`` seconds for it; it is about to be sent."""
        self._metrics.waited(_ROLES[served], waited, key=order.plain_key, job=order.job)

    def served(self, served: Served, size: int, compile_seconds: float) -> None:
        """An artifact of ``size`` bytes that took ``compile_seconds`` to compile reached a client whole."""
        match served:
            case Served.SERVED_HIT:
                self._totals.hits += 1
            case Served.SERVED_JOINED:
                self._totals.joined += 1
            case _:
                self._totals.led += 1
        self._metrics.requests.labels(_RESULTS[served]).inc()
        self._metrics.artifact_bytes.labels("out").inc(size)
        if served != SERVED_LED:
            self._totals.saved_seconds += compile_seconds
            self._metrics.saved.inc(compile_seconds)

    def uploaded(self, size: int) -> None:
        """A graph came whole."""
        self._metrics.graph_bytes.inc(size)

    def queued(self, order: Order, attempt: int) -> None:
        """A graph goes to the pool, for the ``attempt``th time."""
        self._jobs.queued(order, attempt)

    def abandoned(self, order: Order) -> None:
        """A graph that went to the pool was taken back: nobody waits for it, or the daemon stops."""
        self._jobs.abandoned(order)

    def compiling(self, order: Order) -> None:
        """A worker started on a graph."""
        self._totals.compiles += 1
        self._metrics.compiles.inc()
        self._jobs.compiling(order)

    def compiled(self, order: Order, outcome: Outcome) -> None:
        """The pool is done with a graph, well or not."""
        if isinstance(outcome, Compiled):
            self._metrics.artifact_bytes.labels("in").inc(len(outcome.artifact))
            if outcome.origin != ORIGIN_COMPILED:
                return  # Another daemon of the cluster has counted this compile.
        self._totals.compile_seconds += outcome.compile_seconds
        self._jobs.compiled(order, outcome)
        failure: CompileFailure | None = None
        phases: Mapping[str, float] = {}
        if isinstance(outcome, Compiled):
            phases = outcome.phases
        else:
            self._totals.failures += 1
            failure = outcome.failure
        self._metrics.compile_ended(
            order.kind, failure, outcome.compile_seconds, phases, key=order.plain_key, job=order.job
        )
