"""The side of ``otel`` that imports OpenTelemetry: its SDK and its OTLP exporter over gRPC. Imported only when asked for.

The SDK reads the standard variables itself: endpoint, headers, sampler, resource attributes, batch sizes and times.
"""

import os
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from inductord import __version__
from inductord.compiler.otel import HEADER, Span, SpanKind, Value

_RANK = "inductord-rank"
_EXPORT_SECONDS = 3
"""A process that ends does not wait longer than this for a collector that does not answer."""

_KINDS = {
    "internal": trace.SpanKind.INTERNAL,
    "server": trace.SpanKind.SERVER,
    "client": trace.SpanKind.CLIENT,
}
_PROPAGATOR = TraceContextTextMapPropagator()


class ExportedSpans:
    """Implements ``otel.Spans``. A rank whose program has set up a tracer provider of its own uses that one."""

    def __init__(self, service: str) -> None:
        self._own: TracerProvider | None = None
        theirs = trace.get_tracer_provider()
        if service == _RANK and isinstance(theirs, TracerProvider):
            self._tracer = theirs.get_tracer("inductord", __version__)
            return
        # The variable names the job's service; daemon and workers are services of their own.
        name = os.environ.get("OTEL_SERVICE_NAME", service) if service == _RANK else service
        self._own = TracerProvider(resource=Resource.create({SERVICE_NAME: name, "process.pid": os.getpid()}))
        self._own.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_EXPORT_SECONDS)))
        self._tracer = self._own.get_tracer("inductord", __version__)

    def begin(
        self,
        name: str,
        attributes: Mapping[str, Value],
        *,
        parent: str = "",
        kind: SpanKind = "internal",
        start_unix: float | None = None,
    ) -> Span:
        """See ``otel.Spans.begin``."""
        context = _PROPAGATOR.extract({HEADER: parent}) if parent else None
        start = None if start_unix is None else _nanos(start_unix)
        span = self._tracer.start_span(name, context, _KINDS[kind], attributes, start_time=start)
        return _ExportedSpan(self._tracer, span)

    def close(self) -> None:
        """See ``otel.Spans.close``."""
        if self._own is not None:
            self._own.shutdown()


class _ExportedSpan:
    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def traceparent(self) -> str:
        """See ``otel.Span.traceparent``."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(self._span))
        return carrier.get(HEADER, "")

    def child(self, name: str, start_unix: float, seconds: float) -> None:
        """See ``otel.Span.child``."""
        context = trace.set_span_in_context(self._span)
        part = self._tracer.start_span(name, context, start_time=_nanos(start_unix))
        part.end(_nanos(start_unix + seconds))

    def link(self, traceparent: str) -> None:
        """See ``otel.Span.link``."""
        other = trace.get_current_span(_PROPAGATOR.extract({HEADER: traceparent})).get_span_context()
        if other.is_valid:
            self._span.add_link(other)

    def end(self, attributes: Mapping[str, Value], *, error: str = "") -> None:
        """See ``otel.Span.end``."""
        self._span.set_attributes(dict(attributes))
        if error:
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, error))
        self._span.end()


def _nanos(seconds: float) -> int:
    return round(seconds * 1e9)
