"""What daemons' bridges and the registry of a cluster say to each other. Plain data: Ray carries it, a test can as well.

A ticket is a bridge's own number for one request. Events of one session are numbered from 1, and each is repeated until the
bridge has said that it has it.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from inductord.v1.bridge_pb2 import Origin
from inductord.worker.pool import Place


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """An artifact is wanted. ``toolchain`` is serialised. ``lost``: name of an artifact of this key that could not be read.
    ``tenant``: those of different tenants never meet.
    """

    ticket: int
    key: str
    toolchain: bytes
    speculative: bool = False
    needs_device: bool = False
    lost: str = ""
    tenant: str = ""
    traceparent: str = ""

    @property
    def scoped(self) -> str:
        """The key, told apart from that of another tenant. A key has no slash."""
        return f"{self.tenant}/{self.key}" if self.tenant else self.key


@dataclasses.dataclass(frozen=True, slots=True)
class Give:
    """The graph that was asked for."""

    ticket: int
    graph: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Leave:
    """The artifact is not wanted any more."""

    ticket: int


@dataclasses.dataclass(frozen=True, slots=True)
class Promote:
    """Somebody waits now for what was asked for as speculative."""

    ticket: int


Request = Ask | Give | Leave | Promote


@dataclasses.dataclass(frozen=True, slots=True)
class WantGraph:
    """The bridge shall give the graph: its request leads."""

    ticket: int


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """A worker took the graph that this bridge gave."""

    ticket: int


@dataclasses.dataclass(frozen=True, slots=True)
class Produced:
    """An artifact in the object store. ``name`` is never used twice. ``worker``: who made it, for reports."""

    name: str
    place: Place
    compile_seconds: float
    phases: Mapping[str, float]
    worker: str


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """The artifact is there. Nothing follows for this ticket."""

    ticket: int
    origin: Origin
    produced: Produced


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """There is no artifact. ``failure``: a serialised ``CompileFailure``. Nothing follows for this ticket."""

    ticket: int
    failure: bytes


Event = WantGraph | Started | Done | Failure


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Events after those that the bridge said it has; ``last`` is the number of the newest. ``status``: a serialised
    ``PoolStatus`` of the cluster.
    """

    events: Sequence[Event]
    last: int
    status: bytes


class SessionUnknown(Exception):
    """The registry does not know this session: it was started anew, or took the bridge for dead. The bridge asks again."""
