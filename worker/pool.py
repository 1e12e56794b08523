"""The pool protocol: what the daemon knows of whatever compiles.

Two real pools implement it, ``local_pool`` (processes of this node) and ``ray_pool`` (actors of a Ray cluster).
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Protocol

from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.bridge_pb2 import Origin
from inductord.v1.compiler_pb2 import CompileFailure, FailureKind, Toolchain


class Priority(enum.IntEnum):
    """Who is served first. Lower goes first."""

    WAITED_FOR = 0
    SPECULATIVE = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """One graph to compile. ``graph`` is a serialised ``GraphPayload``, opaque to the pool. ``tenant``: for whom; jobs of
    different tenants are different, also where their keys are the same. Empty for the daemon's owner. ``traceparent``: W3C
    trace context of the compile, if it is traced. ``needs_device``: its compile measures on a device. ``place``: where a
    cluster holds the graph, in place of ``graph``.
    """

    key: str
    graph: bytes
    toolchain: Toolchain
    priority: Priority = Priority.WAITED_FOR
    tenant: str = ""
    traceparent: str = ""
    needs_device: bool = False
    place: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where an artifact of ``size`` bytes is: opaque but to whoever put it there."""

    at: object
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A compile that ended well. ``phases``: seconds by phase name; ``artifact``: a serialised ``ArtifactPayload``;
    ``worker``: name of the worker, for reports. ``place``: where it is, when ``artifact`` is empty because it was left in a
    cluster's object store.
    """

    artifact: bytes
    compile_seconds: float
    phases: Mapping[str, float] = dataclasses.field(default_factory=dict)
    worker: str = ""
    origin: Origin = Origin.ORIGIN_COMPILED
    place: Place | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """A compile that did not. ``retryable``: the fault may lie with the worker, another may do better."""

    failure: CompileFailure
    retryable: bool = False
    compile_seconds: float = 0.0
    worker: str = ""


Outcome = Compiled | Failed


def failed(kind: "FailureKind", message: str, *, traceback: str = "", retryable: bool = False) -> Failed:
    """A ``Failed`` with its message made from parts."""
    return Failed(CompileFailure(kind=kind, message=message, traceback=traceback), retryable=retryable)


class Pool(Protocol):
    """Workers that compile. All methods run on the daemon's event loop and do not block it.

    A pool owns time limits, memory limits and the life of its workers. It does not retry and does not deduplicate: that
    is single-flight's.
    """

    @property
    def kind(self) -> str:
        """``local`` or ``ray``; a metric label."""

    async def start(self) -> None:
        """Make ready and begin to warm workers, without waiting for them.

        Raises:
            PoolUnavailable: with a message for people, when there is no such pool to be had.
        """

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """Compile one graph. Waits for a worker; calls ``started`` once, when one takes the job. It is not called when
        the artifact comes from somebody else's compile.

        Never raises for what a graph or a worker does: a dead worker is a ``Failed``. Cancelling it abandons the job:
        if a worker has it, that worker is ended.
        """

    def promote(self, key: str) -> None:
        """Somebody waits now for what was submitted as speculative. Ignored for a key that waits for no worker."""

    def status(self) -> PoolStatus:
        """A snapshot, cheap enough to be taken at every scrape."""

    async def stop(self, grace: float) -> None:
        """End all workers within ``grace`` seconds, by force at the end of it. Idempotent."""


class PoolUnavailable(RuntimeError):
    """The pool cannot be started or reached. The message says what to do about it."""
