"""What is counted of the shared store and of imports. Labels are the closed sets of ``shared.events``."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from inductord.daemon.shared.events import Operation, Put, Read, Write
from inductord.daemon.shared.sealed import Refusal


class SharedMetrics:
    """Implements ``SharedEvents``. All series exist from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reads = Counter(
            "inductord_shared_store_reads",
            "Artifacts looked for in the shared store, by how it ended; all but hit are compiled.",
            ["result"],
            registry=registry,
        )
        self._writes = Counter(
            "inductord_shared_store_writes",
            "Artifacts to be written to the shared store, by how it ended.",
            ["result"],
            registry=registry,
        )
        self._bytes = Counter(
            "inductord_shared_store_bytes",
            "Bytes of artifacts, in from the shared store and out to it.",
            ["direction"],
            registry=registry,
        )
        self._queue = Gauge(
            "inductord_shared_store_queue", "Artifacts that are to be written to the shared store.", registry=registry
        )
        self._breaker = Gauge(
            "inductord_shared_store_resting",
            "1 while the shared store is left alone after failures.",
            ["operation"],
            registry=registry,
        )
        self._imports = Counter(
            "inductord_store_imports",
            "Artifacts that somebody wanted to import into the store, by how it ended.",
            ["result"],
            registry=registry,
        )
        for family, values in (
            (self._reads, (*Read, *Refusal)),
            (self._writes, Write),
            (self._bytes, ("in", "out")),
            (self._breaker, Operation),
            (self._imports, (*Put, *Refusal)),
        ):
            for value in values:
                family.labels(value)

    def shared_read(self, result: Read | Refusal, size: int) -> None:
        """One read ended."""
        self._reads.labels(result).inc()
        self._bytes.labels("in").inc(size)

    def shared_written(self, result: Write, size: int) -> None:
        """One write ended."""
        self._writes.labels(result).inc()
        self._bytes.labels("out").inc(size)

    def shared_queue(self, length: int) -> None:
        """So many writes wait or are under way."""
        self._queue.set(length)

    def shared_breaker(self, operation: Operation, open: bool) -> None:
        """The store is left alone now, or no more."""
        self._breaker.labels(operation).set(open)

    def imported(self, result: Put | Refusal) -> None:
        """One artifact was put."""
        self._imports.labels(result).inc()
