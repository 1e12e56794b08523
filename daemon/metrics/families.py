"""Every metric that counts as things happen: name, help, labels and their closed sets.

The registry is injected, so each daemon in one process has its own. All label sets exist from the start, so that rates
begin at zero. Labels never hold a key, a rank, a pid or a name that a client chose, but for the few jobs of ``job_labels``.
"""

import enum
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import grpc
from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.metrics import MetricWrapperBase

from inductord import __version__
from inductord.compiler.versions import KEY_FORMAT, PROTOCOL
from inductord.daemon.auth.refusals import AuthFailure
from inductord.daemon.metrics.buckets import COMPILE_BUCKETS, RPC_BUCKETS, WAIT_BUCKETS
from inductord.daemon.metrics.exemplars import exemplar
from inductord.daemon.metrics.ranks import RankMetrics
from inductord.daemon.metrics.shared import SharedMetrics
from inductord.daemon.rank_stats import OTHER
from inductord.daemon.store import EvictReason, ReadTier
from inductord.daemon.tuning import TuningResult
from inductord.v1 import admin_pb2, cache_pb2, compiler_pb2, tuning_pb2
from inductord.v1.compiler_pb2 import CompileFailure, FailureKind, GraphKind, RankStats, Requester
from inductord.worker.failures import WorkerFailure

PHASES = ("load", "key", "compile", "pack")


class Result(enum.StrEnum):
    """How a request for one artifact ended."""

    HIT = "hit"
    JOINED = "joined"
    LED = "led"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    ERROR = "error"


class Role(enum.StrEnum):
    """Whose wait it was."""

    LEADER = "leader"
    JOINER = "joiner"
    HIT = "hit"


def _label(name: str, prefix: str) -> str:
    """The label of an enum's value: its name without the prefix, in lower case; ``other`` for the unspecified."""
    short = name.removeprefix(prefix).lower()
    return OTHER if short == "unspecified" else short


def kind_label(kind: GraphKind) -> str:
    """``forward``, ``backward``, ``inference`` or ``other``."""
    return _label(GraphKind.Name(kind), "GRAPH_KIND_")


def failure_label(failure: CompileFailure) -> str:
    """The kind of the failure in lower case."""
    return _label(FailureKind.Name(failure.kind), "FAILURE_KIND_")


KINDS = [_label(name, "GRAPH_KIND_") for name, _ in GraphKind.items()]
OUTCOMES = ("compiled", "failed")
CODES = (
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)
"""Those that the protos name, and what gRPC itself says. Others appear when they happen, as all of `_PEOPLES` but OK do: they
would be a tenth of a scrape."""
_PEOPLES = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name
FAILURES = [_label(name, "FAILURE_KIND_") for name, _ in FailureKind.items()]


class Metrics:
    """The daemon's counters and histograms. Implements ``StoreEvents``."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = registry
        self.ranks = RankMetrics(registry, clock)
        # Ranks report sums, so this becomes a summary without quantiles; ``live`` exports it.
        self.loads = 0
        self.load_seconds = 0.0
        self.requests = Counter(
            "inductord_compile_requests",
            "Requests for one artifact, by how they ended.",
            ["result"],
            registry=registry,
        )
        self.compiles = Counter("inductord_compiles", "Compiles that a worker started.", registry=registry)
        self.compile_duration = Histogram(
            "inductord_compile_duration_seconds",
            "Wall clock of one compile in its worker.",
            ["kind", "outcome"],
            buckets=COMPILE_BUCKETS,
            registry=registry,
        )
        # Kinds of failures are no label of the histogram: it would be most of a scrape.
        self.compile_failures = Counter(
            "inductord_compile_failures", "Compiles that failed, by why.", ["reason"], registry=registry
        )
        self.phase_duration = Histogram(
            "inductord_phase_duration_seconds",
            "Wall clock of one phase of a compile in its worker.",
            ["phase"],
            buckets=COMPILE_BUCKETS,
            registry=registry,
        )
        self.wait = Histogram(
            "inductord_wait_seconds",
            "Time from a request to its artifact's first byte, as the daemon sees it.",
            ["role"],
            buckets=WAIT_BUCKETS,
            registry=registry,
        )
        self.saved = Counter(
            "inductord_compile_seconds_saved",
            "Compile time of artifacts that requests got without a compile of their own.",
            registry=registry,
        )
        self.artifact_bytes = Counter(
            "inductord_artifact_bytes",
            "Bytes of artifacts, in from workers and out to ranks.",
            ["direction"],
            registry=registry,
        )
        self.graph_bytes = Counter("inductord_graph_bytes", "Bytes of graphs that ranks uploaded.", registry=registry)
        self.evictions = Counter(
            "inductord_store_evictions", "Entries that had to leave the store.", ["reason"], registry=registry
        )
        self.quarantines = Counter(
            "inductord_store_quarantined", "Artifacts found damaged or missing.", registry=registry
        )
        self.write_failures = Counter(
            "inductord_store_write_failures",
            "Writes that the disk did not take; the artifact lives on in memory.",
            registry=registry,
        )
        self.reads = Counter("inductord_store_reads", "Artifacts read, by tier.", ["tier"], registry=registry)
        self.worker_failures = Counter(
            "inductord_worker_failures",
            "Workers that did not end by themselves.",
            ["reason"],
            registry=registry,
        )
        self.auth_failures = Counter(
            "inductord_auth_failures",
            "Calls that were refused because of who made them.",
            ["reason"],
            registry=registry,
        )
        self.tls_connections = Counter(
            "inductord_tls_connections",
            "Connections that began a TLS handshake, which gRPC may refuse without saying so.",
            registry=registry,
        )
        self.tls_sound = Counter(
            "inductord_tls_connections_sound",
            "Connections whose TLS handshake ended well, counted at their first call; the others failed, or never called.",
            registry=registry,
        )
        self.auth_reload_failures = Counter(
            "inductord_auth_reload_failures",
            "Changed files of tokens, certificates or keys that could not be read; the old ones stay in force.",
            registry=registry,
        )
        self.tunings = Counter(
            "inductord_kernel_tunings",
            "Kernels and paddings of products that ranks wanted tuned, by how they came to a choice; measured ones cost time.",
            ["result"],
            registry=registry,
        )
        rpc_labels = ["grpc_type", "grpc_service", "grpc_method"]
        self.rpc_started = Counter("grpc_server_started", "RPCs started.", rpc_labels, registry=registry)
        self.rpc_handled = Counter(
            "grpc_server_handled", "RPCs completed, by status code.", [*rpc_labels, "grpc_code"], registry=registry
        )
        self.rpc_handling = Histogram(
            "grpc_server_handling_seconds",
            "Time from the start of an RPC to its end.",
            rpc_labels,
            buckets=RPC_BUCKETS,
            registry=registry,
        )
        Info("inductord_build", "Versions of this daemon.", registry=registry).info(
            {
                "version": __version__,
                "protocol": str(PROTOCOL),
                "key_format": str(KEY_FORMAT),
                "python": platform.python_version(),
            }
        )
        self.shared = SharedMetrics(registry)
        self._make_label_sets()

    def compile_ended(
        self,
        kind: GraphKind,
        failure: CompileFailure | None,
        seconds: float,
        phases: Mapping[str, float],
        *,
        key: str,
        job: str,
    ) -> None:
        """A worker is done with the graph of ``key`` that ``job`` sent."""
        shown = exemplar(key=key, job=job)
        outcome = "compiled" if failure is None else "failed"
        self.compile_duration.labels(kind_label(kind), outcome).observe(seconds, shown)
        if failure is not None:
            self.compile_failures.labels(failure_label(failure)).inc()
        for phase, duration in phases.items():
            self.phase_duration.labels(phase if phase in PHASES else OTHER).observe(duration, shown)

    def waited(self, role: Role, seconds: float, *, key: str, job: str) -> None:
        """A request of ``job`` waited for the artifact of ``key``."""
        self.wait.labels(role).observe(seconds, exemplar(key=key, job=job))

    def rank_reported(self, requester: Requester, new: RankStats) -> None:
        """What a rank reported beyond its last report; labels are those of ``rank_stats``."""
        self.loads += new.hits + new.joined + new.led
        self.load_seconds += new.load_seconds
        self.ranks.reported(requester, new)

    def worker_failed(self, reason: str) -> None:
        """The pool lost a worker."""
        self.worker_failures.labels(reason if reason in set(WorkerFailure) else OTHER).inc()

    def tuned(self, result: TuningResult) -> None:
        """A rank came to the choice for a kernel, or did not."""
        self.tunings.labels(result).inc()

    def auth_failed(self, reason: AuthFailure) -> None:
        """A call was refused because of who made it."""
        self.auth_failures.labels(reason).inc()

    def tls_connecting(self) -> None:
        """A connection begins its TLS handshake."""
        self.tls_connections.inc()

    def tls_connected(self) -> None:
        """A first call came over a connection with TLS."""
        self.tls_sound.inc()

    def auth_reload_failed(self) -> None:
        """A file of tokens, certificates or keys has changed and cannot be read."""
        self.auth_reload_failures.inc()

    # StoreEvents

    def evicted(self, reason: EvictReason) -> None:
        """One entry was evicted."""
        self.evictions.labels(reason).inc()

    def quarantined(self) -> None:
        """One artifact was found damaged or missing."""
        self.quarantines.inc()

    def write_failed(self) -> None:
        """The disk did not take a write."""
        self.write_failures.inc()

    def read(self, tier: ReadTier) -> None:
        """One artifact was read."""
        self.reads.labels(tier).inc()

    def _make_label_sets(self) -> None:
        _make(self.requests, Result)
        _make(self.phase_duration, (*PHASES, OTHER))
        _make(self.wait, Role)
        _make(self.artifact_bytes, ("in", "out"))
        _make(self.evictions, EvictReason)
        _make(self.reads, ReadTier)
        _make(self.worker_failures, (*WorkerFailure, OTHER))
        _make(self.compile_failures, FAILURES)
        _make(self.auth_failures, AuthFailure)
        _make(self.tunings, TuningResult)
        for labels in _methods():
            self.rpc_started.labels(*labels)
            self.rpc_handling.labels(*labels)
            for code in (grpc.StatusCode.OK,) if labels[1] == _PEOPLES else CODES:
                self.rpc_handled.labels(*labels, code.name)
        for kind in KINDS:
            for outcome in OUTCOMES:
                self.compile_duration.labels(kind, outcome)


def rpc_type(client_streaming: bool, server_streaming: bool) -> str:
    """The label that gRPC's own metrics use elsewhere."""
    if client_streaming:
        return "bidi_stream" if server_streaming else "client_stream"
    return "server_stream" if server_streaming else "unary"


def _methods() -> Iterator[tuple[str, str, str]]:
    for file in (compiler_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, tuning_pb2.DESCRIPTOR, cache_pb2.DESCRIPTOR):
        for service in file.services_by_name.values():
            for method in service.methods:
                yield rpc_type(method.client_streaming, method.server_streaming), service.full_name, method.name


def _make(family: MetricWrapperBase, values: Iterable[str]) -> None:
    for value in values:
        family.labels(value)
