"""When this rank did what: spans for the job's report, bounded, sent with the rank's counts.

Recording must cost a graph nothing that anybody could notice, and whatever happens to a graph ends its span: the times are
for people, and nothing decides by them.
"""

import collections
import contextlib
import re
import socket
import threading
import time
import types
from collections.abc import Iterator, Mapping
from typing import Any

from inductord.compiler.otel import NoSpans, Spans, Value
from inductord.v1.compiler_pb2 import GraphKind, RankSpan, RankTrace, Served, StageKind

MAX_SPANS = 2000
"""Kept per process. A job with more graphs than this recompiles all the time, and its newest spans say so."""

MAX_SPANS_A_REPORT = 500
_COMPILE_ID_LENGTH = 32
NO_SPANS = NoSpans()
NOTHING: Mapping[str, Value] = types.MappingProxyType({})


class Stopwatch:
    """``seconds``: how long the block took; 0 while it runs."""

    seconds = 0.0


class SpanRecorder:
    """One span on its way. Its stages may lie inside one another, or side by side in threads."""

    def __init__(self, kind: GraphKind, nodes: int, spans: Spans, about: Mapping[str, Value]) -> None:
        self.span = RankSpan(start_unix=time.time(), kind=kind, nodes=nodes)
        self._began = time.perf_counter()
        graph: dict[str, Value] = {"inductord.kind": _name(GraphKind, kind), "inductord.nodes": nodes}
        self._traced = spans.begin("inductord.graph", {**about, **graph}, kind="client")

    @property
    def traceparent(self) -> str:
        """The context for the daemon, when OpenTelemetry is asked for; else empty."""
        return self._traced.traceparent

    @contextlib.contextmanager
    def stage(self, kind: StageKind) -> Iterator[Stopwatch]:
        """Time the block as a stage of that kind; it counts also when it raises."""
        watch = Stopwatch()
        start = time.perf_counter()
        try:
            yield watch
        finally:
            watch.seconds = time.perf_counter() - start
            offset = start - self._began
            self.span.stages.add(kind=kind, offset_seconds=offset, seconds=watch.seconds)
            self._traced.child(_name(StageKind, kind), self.span.start_unix + offset, watch.seconds)

    def identified(self, key: str) -> None:
        """The graph's key is known: 64 hex digits."""
        self.span.key = bytes.fromhex(key)

    def served(self, served: Served) -> None:
        """The artifact came, in this way, and was loaded."""
        self.span.served = served

    def fell_back(self, reason: str) -> None:
        """The rank compiles the graph itself."""
        self.span.fallback = reason

    def ended(self) -> None:
        """The graph is there, or raised."""
        span = self.span
        how = {"inductord.key": span.key.hex(), "inductord.served": _name(Served, span.served)}
        self._traced.end({**how, "inductord.fallback": span.fallback})


class Timeline:
    """Spans of this process. Safe to use from several threads.

    ``spans``: where they also go, when OpenTelemetry is asked for; ``about``: what each of these says of the rank.
    """

    def __init__(self, spans: Spans = NO_SPANS, about: Mapping[str, Value] = NOTHING) -> None:
        self._otel = spans
        self._about = about
        self._lock = threading.Lock()
        self._spans: collections.deque[RankSpan] = collections.deque(maxlen=MAX_SPANS)
        self._recorded = 0
        self._taken = 0
        self._clock_ahead: float | None = None
        # How far off that may be: half of the time that the exchange took.
        self._clock_error = float("inf")
        self._host = socket.gethostname()

    @contextlib.contextmanager
    def graph(self, kind: GraphKind, nodes: int) -> Iterator[SpanRecorder]:
        """The way of one graph of ``nodes`` FX nodes."""
        recorder = SpanRecorder(kind, nodes, self._otel, self._about)
        try:
            yield recorder
        finally:
            recorder.ended()
            self._record(recorder.span)

    def traced(self, kind: StageKind, compile_id: str, start_unix: float, seconds: float) -> None:
        """A frame was traced, or a backward graph was made when it was needed; PyTorch names it ``compile_id``."""
        span = RankSpan(start_unix=start_unix, compile_id=compile_id[:_COMPILE_ID_LENGTH])
        span.stages.add(kind=kind, seconds=seconds)
        self._record(span)

    def _record(self, span: RankSpan) -> None:
        with self._lock:
            self._spans.append(span)
            self._recorded += 1

    def trace(self, *, whole: bool = False) -> RankTrace:
        """What the daemon has not taken yet, as much as goes into one report; ``whole``: all that is kept."""
        with self._lock:
            oldest = self._recorded - len(self._spans)
            first = oldest if whole else max(self._taken, oldest)
            spans = list(self._spans)[first - oldest :]
            trace = RankTrace(first=first, host=self._host, spans=spans if whole else spans[:MAX_SPANS_A_REPORT])
            if self._clock_ahead is not None:
                trace.clock_ahead_seconds = self._clock_ahead
        return trace

    def answered(self, taken: int, daemon_unix: float, sent_unix: float, received_unix: float) -> None:
        """The daemon answered a report: it has all spans before ``taken``, and its clock said ``daemon_unix`` between the
        rank's ``sent_unix`` and ``received_unix``.

        Of all exchanges the quickest tells the clocks' difference best (NTP's clock filter). A difference that the
        exchange itself can explain is none.
        """
        error = abs(received_unix - sent_unix) / 2
        ahead = daemon_unix - (sent_unix + received_unix) / 2
        with self._lock:
            self._taken = min(max(self._taken, taken), self._recorded)
            if daemon_unix and error < self._clock_error:
                self._clock_error = error
                self._clock_ahead = ahead if abs(ahead) > error else 0.0


def _name(enum: Any, number: int) -> str:
    """``wait`` for ``STAGE_KIND_WAIT``, as enums of protobuf are named."""
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.DESCRIPTOR.name).upper() + "_"
    return str(enum.Name(number)).removeprefix(prefix).lower()
