"""Spans for OpenTelemetry, in whichever process: rank, daemon or worker.

They are made only where the standard variables of OpenTelemetry ask for them, and only then is anything of it imported
(``otel_export``). What crosses from one process to the next is the W3C trace context, as text.
"""

import dataclasses
import functools
import logging
import os
import re
from collections.abc import Mapping
from typing import Literal, Protocol

log = logging.getLogger("inductord")

HEADER = "traceparent"
"""The gRPC metadata that carries the context (https://www.w3.org/TR/trace-context)."""

Value = str | int | float | bool
SpanKind = Literal["internal", "server", "client"]

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Span(Protocol):
    """One span that was begun."""

    @property
    def traceparent(self) -> str:
        """Its context for other processes; empty when nothing is traced."""

    def child(self, name: str, start_unix: float, seconds: float) -> None:
        """A part of it that is over."""

    def link(self, traceparent: str) -> None:
        """It has to do with a span of another trace, or of another branch of this one."""

    def end(self, attributes: Mapping[str, Value], *, error: str = "") -> None:
        """It is over; with ``error``, badly."""


class Spans(Protocol):
    """Where spans begin."""

    def begin(
        self,
        name: str,
        attributes: Mapping[str, Value],
        *,
        parent: str = "",
        kind: SpanKind = "internal",
        start_unix: float | None = None,
    ) -> Span:
        """A span that begins now, or at ``start_unix``. ``parent``: a trace context; without one, what this thread is in, if
        the program uses OpenTelemetry itself, or nothing."""

    def close(self) -> None:
        """Send what is left. Bounded in time; blocks."""


@dataclasses.dataclass(frozen=True, slots=True)
class _NoSpan:
    traceparent: str = ""

    def child(self, name: str, start_unix: float, seconds: float) -> None:
        """Nothing."""

    def link(self, traceparent: str) -> None:
        """Nothing."""

    def end(self, attributes: Mapping[str, Value], *, error: str = "") -> None:
        """Nothing."""


class NoSpans:
    """Where nothing is traced."""

    def begin(
        self,
        name: str,
        attributes: Mapping[str, Value],
        *,
        parent: str = "",
        kind: SpanKind = "internal",
        start_unix: float | None = None,
    ) -> Span:
        """A span that is none."""
        return _NO_SPAN

    def close(self) -> None:
        """Nothing is left."""


_NO_SPAN = _NoSpan()


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether the variables ask for traces: an exporter is named, or an endpoint for one."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporters:
        return "otlp" in exporters.split(",")
    return any(environ.get(name) for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"))


@functools.cache
def spans_of(service: str) -> Spans:
    """The spans of this process under the name of ``service``; none when nothing asks for them or they cannot be had."""
    if not wanted(os.environ):
        return NoSpans()
    try:
        from inductord.compiler.otel_export import ExportedSpans

        return ExportedSpans(service)
    except ImportError as error:
        # Many clusters set the variables for all programs: whoever did may not have thought of this one.
        log.info("inductord: no traces, though OTEL_* variables ask for them: %s. pip install 'inductord[otel]'", error)
        return NoSpans()


def checked(traceparent: str | bytes | None) -> str:
    """A trace context from outside, or nothing when it is malformed."""
    text = traceparent.decode("ascii", "replace") if isinstance(traceparent, bytes) else traceparent or ""
    return text if _TRACEPARENT.fullmatch(text) else ""
