"""A collector of traces that keeps what it is sent: OTLP over gRPC, on a port of its own."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service_grpc


@dataclasses.dataclass(frozen=True)
class Seen:
    """A span, with ids as hex. ``links``: ids of the spans that it is linked with; ``service``: whose it is."""

    service: str
    pid: int
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    links: tuple[str, ...]
    about: dict[str, Any]
    error: str


class Collector(service_grpc.TraceServiceServicer):  # type: ignore[misc]  # generated, without types
    """``address``: for ``OTEL_EXPORTER_OTLP_ENDPOINT``."""

    def __init__(self) -> None:
        self.address = ""
        self._lock = threading.Lock()
        self._spans: list[Seen] = []

    def Export(self, request: Any, context: Any) -> Any:
        """Keep the spans."""
        spans = [
            _seen(resource.resource, span)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self._spans += spans
        return service.ExportTraceServiceResponse()

    @property
    def spans(self) -> list[Seen]:
        """All so far."""
        with self._lock:
            return list(self._spans)

    def named(self, name: str) -> list[Seen]:
        """Those of that name."""
        return [span for span in self.spans if span.name == name]

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process send its spans here, soon after they end."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.address,
            "OTEL_EXPORTER_OTLP_INSECURE": "true",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }


def _seen(resource: Any, span: Any) -> Seen:
    owner = _attributes(resource.attributes)
    return Seen(
        service=owner["service.name"],
        pid=owner["process.pid"],
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        links=tuple(link.span_id.hex() for link in span.links),
        about=_attributes(span.attributes),
        error=span.status.message,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens on this machine."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(4))
    service_grpc.add_TraceServiceServicer_to_server(collector, server)
    collector.address = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()
