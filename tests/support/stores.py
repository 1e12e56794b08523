"""What tests of the store share."""

import dataclasses
import hashlib
import os
import random
from collections import Counter
from pathlib import Path

from inductord.daemon.shared import keys
from inductord.daemon.shared.events import Operation, Read, Write
from inductord.daemon.shared.sealed import Refusal
from inductord.daemon.store import EvictReason, Meta, ReadTier, Store, StoreEvents
from inductord.v1.compiler_pb2 import GRAPH_KIND_FORWARD, Toolchain

META = Meta(
    kind=GRAPH_KIND_FORWARD,
    compile_seconds=2.5,
    toolchain=Toolchain(torch="2.13.0", python="3.11", cpu="x86_64 avx512", cxx="g++ #1"),
    key_parts={"graph": "aa", "config": "bb"},
    nodes=7,
    job="job",
)


def key_of(number: int) -> str:
    """A key as real ones look."""
    return hashlib.sha256(number.to_bytes(8, "big")).hexdigest()


def artifact(number: int, size: int) -> bytes:
    """Bytes that depend on ``number``."""
    return random.Random(number).randbytes(size)


@dataclasses.dataclass
class Recorder(StoreEvents):
    """Counts what a store reports."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)

    def evicted(self, reason: EvictReason) -> None:
        self.counts[f"evicted {reason}"] += 1

    def quarantined(self) -> None:
        self.counts["quarantined"] += 1

    def write_failed(self) -> None:
        self.counts["write_failed"] += 1

    def read(self, tier: ReadTier) -> None:
        self.counts[f"read {tier}"] += 1


class Clock:
    """Time as a test sets it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


async def open_store(
    path: Path,
    *,
    max_bytes: int = 1 << 20,
    memory_bytes: int = 0,
    events: StoreEvents | None = None,
    clock: Clock | None = None,
) -> Store:
    """A store; without a memory tier unless asked for, so that reads go to the disk."""
    return await Store.open(path, max_bytes=max_bytes, memory_bytes=memory_bytes, clock=clock or Clock(), events=events)


def blob_path(store: Path, data: bytes) -> Path:
    """Where the store keeps ``data``."""
    name = hashlib.sha256(data).hexdigest()
    return store / "blobs" / name[:2] / name


def blob_names(store: Path) -> set[str]:
    return {path.name for path in (store / "blobs").glob("*/*")}


def quarantined_files(store: Path) -> list[Path]:
    return sorted((store / "quarantine").iterdir())


@dataclasses.dataclass
class SharedRecorder:
    """Counts what a shared store reports. Implements ``SharedEvents``."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    longest_queue: int = 0
    resting: set[Operation] = dataclasses.field(default_factory=set)

    def shared_read(self, result: Read | Refusal, size: int) -> None:
        self.counts[f"read {result}"] += 1
        self.counts["bytes in"] += size

    def shared_written(self, result: Write, size: int) -> None:
        self.counts[f"write {result}"] += 1
        self.counts["bytes out"] += size

    def shared_queue(self, length: int) -> None:
        self.longest_queue = max(length, self.longest_queue)

    def shared_breaker(self, operation: Operation, open: bool) -> None:
        (self.resting.add if open else self.resting.discard)(operation)

    def seen(self, of: str) -> dict[str, int]:
        """Counts of ``read`` or ``write`` that are not zero, by result."""
        return {name.removeprefix(f"{of} "): count for name, count in self.counts.items() if name.startswith(f"{of} ")}


def key_file(folder: Path, name: str = "keys") -> Path:
    """A file with one new key."""
    path = folder / name
    keys.add_new(path, standby=False)
    return path


def hangs_at(folder: Path, key: str) -> None:
    """In a shared store in that folder, opening the owner's artifact of a key waits for one who writes, and nobody does."""
    owner = hashlib.sha256(b"").hexdigest()[:32]
    path = folder / "inductord-1" / owner / key[:2] / key
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def no_reload() -> None:
    """Told when a file of keys could not be read again, which no test does that passes this."""
    raise AssertionError("the keys could not be read again")
