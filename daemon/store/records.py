"""What an entry of the store is, what the store reports and what it raises. No behaviour beyond that.

StoreError
├ StoreBusy         another process has the store
├ StoreUnusable     the folder cannot serve as a store
└ ArtifactTooLarge  the artifact can never fit
"""

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from inductord.v1.compiler_pb2 import GraphKind, Toolchain


@dataclasses.dataclass(frozen=True, slots=True)
class Meta:
    """What is known of an artifact besides its bytes.

    ``key_parts``: digests of the parts of the key, by name. They are given when an artifact is published and asked for
    with ``Store.key_parts``; in a record they are left out.
    """

    kind: GraphKind
    compile_seconds: float
    toolchain: Toolchain
    key_parts: Mapping[str, str]
    nodes: int
    job: str


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One entry. ``size`` in bytes; ``sha256``: 32 bytes, of the artifact; ``created`` and ``used`` in Unix seconds."""

    key: str
    size: int
    sha256: bytes
    created: float
    used: float
    uses: int
    meta: Meta

    def without_key_parts(self) -> "Record":
        """As it is kept in memory once the disk has the rest."""
        return dataclasses.replace(self, meta=dataclasses.replace(self.meta, key_parts={}))


class EvictReason(enum.StrEnum):
    """Why an entry had to go. ``SIZE``: a tier was full. ``GC``: somebody asked for it. Also a metric label."""

    SIZE = "size"
    GC = "gc"


class ReadTier(enum.StrEnum):
    """Where a read was served from. ``LENT``: the client was told the file. Also a metric label."""

    MEMORY = "memory"
    DISK = "disk"
    LENT = "lent"


class Evicted(NamedTuple):
    """How many entries went, the bytes that it freed, and whether all went that should."""

    entries: int
    freed: int
    whole: bool = True


class StoreEvents(Protocol):
    """Told on the event loop as things happen; must neither block nor raise."""

    def evicted(self, reason: EvictReason) -> None:
        """One entry was evicted."""

    def quarantined(self) -> None:
        """One artifact, or the index, was found damaged or missing. Its entries are gone."""

    def write_failed(self) -> None:
        """The disk did not take a write. What it was about lives on in memory."""

    def read(self, tier: ReadTier) -> None:
        """One artifact was read."""


class Unobserved:
    """Events for a store that nobody watches."""

    def evicted(self, reason: EvictReason) -> None:
        pass

    def quarantined(self) -> None:
        pass

    def write_failed(self) -> None:
        pass

    def read(self, tier: ReadTier) -> None:
        pass


class StoreError(Exception):
    """The store cannot do what was asked. The message is for people."""


class StoreBusy(StoreError):
    """Another process has the store open. ``pid``: whose, as far as it can be told."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        owner = f"process {pid}" if pid else "another process"
        super().__init__(
            f"The store {path} is in use by {owner}. A store serves one daemon at a time: use that daemon, stop it "
            "with `inductord stop`, or give this one another store with --store."
        )


class StoreUnusable(StoreError):
    """The folder cannot serve as a store."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"The store {path} cannot be used: {reason}")


class ArtifactTooLarge(StoreError):
    """The artifact is larger than the whole store may be. ``size`` and ``limit`` in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"An artifact of {size} bytes does not fit into a store of at most {limit} bytes.")
