"""What is counted of a shared store, by which closed sets. No behaviour beyond that."""

import enum
from typing import Protocol

from inductord.daemon.shared.sealed import Refusal


class Read(enum.StrEnum):
    """How a read of the shared store ended, if it was not refused (`Refusal`)."""

    HIT = "hit"
    ABSENT = "absent"
    TIMEOUT = "timeout"
    ERROR = "error"
    # Left alone after failures; nothing was tried.
    RESTING = "resting"


class Write(enum.StrEnum):
    """How a write ended."""

    STORED = "stored"
    # Also after it was tried again.
    FAILED = "failed"
    QUEUE_FULL = "queue_full"
    RESTING = "resting"
    # The daemon stopped before its turn came.
    STOPPED = "stopped"


class Put(enum.StrEnum):
    """What became of an artifact that was imported, if it was not refused."""

    STORED = "stored"
    PRESENT = "present"


class Operation(enum.StrEnum):
    """What a breaker is for."""

    READ = "read"
    WRITE = "write"


class SharedEvents(Protocol):
    """Told on the event loop as things happen; must neither block nor raise."""

    def shared_read(self, result: Read | Refusal, size: int) -> None:
        """One read ended; ``size`` bytes came."""

    def shared_written(self, result: Write, size: int) -> None:
        """One write ended; ``size`` bytes went."""

    def shared_queue(self, length: int) -> None:
        """So many writes wait or are under way."""

    def shared_breaker(self, operation: Operation, open: bool) -> None:
        """The store is left alone now, or no more."""
