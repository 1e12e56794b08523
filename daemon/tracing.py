"""The daemon's part of a trace: a span for each request, and one for each compile, linked with all requests that it served.

Observes and decides nothing. See ``inductord.compiler.otel`` for when there are traces at all.
"""

import contextlib
import time
from collections.abc import Iterator

from inductord.compiler import otel
from inductord.daemon.orders import Order
from inductord.v1.compiler_pb2 import FailureKind, GraphKind, Served
from inductord.worker.pool import Failed, Outcome


class CompileTrace:
    """One attempt of the pool at one graph."""

    def __init__(self, span: otel.Span, order: Order) -> None:
        self._span = span
        self._asked_by = order.traceparent
        self._queued = time.time()
        self._error = ""
        self._about: dict[str, otel.Value] = {}

    @property
    def traceparent(self) -> str:
        """For the worker."""
        return self._span.traceparent

    def started(self) -> None:
        """A worker took it."""
        self._span.child("queued", self._queued, time.time() - self._queued)

    def ended(self, outcome: Outcome) -> None:
        """The pool is done with it."""
        self._about["inductord.worker"] = outcome.worker
        if isinstance(outcome, Failed):
            self._error = f"{FailureKind.Name(outcome.failure.kind)}: {outcome.failure.message}"

    def serves(self, request: str) -> None:
        """A request with this context gets what it made. The one that asked for it is its parent already."""
        if request and request != self._asked_by:
            self._span.link(request)

    def close(self) -> None:
        """It is over."""
        self._span.end(self._about, error=self._error)


class Traces:
    """Spans of the daemon."""

    def __init__(self, spans: otel.Spans) -> None:
        self._spans = spans
        self._compiles: dict[str, CompileTrace] = {}

    def request(self, order: Order, parent: str) -> otel.Span:
        """A client asks for a graph. ``parent``: its trace context, or nothing."""
        return self._spans.begin("inductord.request", _about(order), parent=parent, kind="server")

    @contextlib.contextmanager
    def compile(self, order: Order) -> Iterator[CompileTrace]:
        """The pool has a graph while the context lasts."""
        traced = CompileTrace(self._spans.begin("inductord.compile", _about(order), parent=order.traceparent), order)
        self._compiles[order.key] = traced
        try:
            yield traced
        finally:
            # It may have been dispatched again meanwhile.
            if self._compiles.get(order.key) is traced:
                del self._compiles[order.key]
            traced.close()

    def delivered(self, order: Order) -> None:
        """What was compiled goes to a client that gave this order."""
        if traced := self._compiles.get(order.key):
            traced.serves(order.traceparent)


def end_request(span: otel.Span, served: Served, error: str) -> None:
    """A request is over; ``served``: how, if it was."""
    span.end({"inductord.served": Served.Name(served)}, error=error)


def _about(order: Order) -> dict[str, otel.Value]:
    return {
        "inductord.key": order.plain_key,
        "inductord.kind": GraphKind.Name(order.kind),
        "inductord.nodes": order.nodes,
        "inductord.job": order.job,
        "inductord.rank": order.rank,
    }
