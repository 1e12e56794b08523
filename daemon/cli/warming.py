"""Asks a daemon for the artifacts of recorded graphs, as a rank would: it leads, and gives the graph when asked for it.

A daemon has one way to compile a graph, and what is stored, compiled elsewhere meanwhile or known to fail is told the same
way. A bounded number of graphs is in memory at a time.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google.protobuf.message import DecodeError

from inductord.compiler.client import Client, CompileFailed
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.compiler.versions import this_version
from inductord.daemon.bundle import BundleReader, BundleRefused
from inductord.daemon.shared.sealed import Unsealed
from inductord.v1.compiler_pb2 import SERVED_HIT, FailureKind, OpenCompile, Progress, Requester
from inductord.v1.payload_pb2 import GraphPayload

_MOST_AT_ONCE = 64
# Nobody's collectives wait here. A graph has its turn when all before it are compiled.
_MAX_WAIT_S = 24 * 3600.0
_JOB = "warm"


class Warming:
    """Asks the daemon at ``address``, whose pool has ``workers``. ``done`` is told how many graphs are done."""

    def __init__(self, address: str, workers: int, done: Callable[[int], None]) -> None:
        self._client = Client(address)
        # Twice as many: the queue of the pool never runs dry, and none of its workers waits for an upload.
        at_once = min(_MOST_AT_ONCE, 2 * max(1, workers))
        self._free = threading.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, "inductord-warm")
        self._done = done
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._failed: list[dict[str, str]] = []
        self._refused: Counter[str] = Counter()

    def run(self, reader: BundleReader) -> str:
        """Have all sound graphs compiled. Returns why the bundle could not be read to its end, if so."""
        trouble = ""
        try:
            for member in reader.members():
                if member.unsealed is None:
                    self._refused[str(member.refusal)] += 1
                    continue
                self._free.acquire()
                self._threads.submit(self._one, member.unsealed)
        except BundleRefused as refused:
            self._refused[refused.reason] += 1
            trouble = str(refused)
        self._threads.shutdown()
        return trouble

    def close(self) -> None:
        """Wait for no more answers."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def result(self) -> dict[str, Any]:
        """For scripts; field names are stable."""
        return {
            "graphs": self._counts.total() + len(self._failed),
            "compiled": self._counts["compiled"],
            "stored": self._counts["stored"],
            "failed": sorted(self._failed, key=lambda failure: failure["key"]),
            "refused": dict(sorted(self._refused.items())),
        }

    def _one(self, graph: Unsealed) -> None:
        try:
            result = self._ask(graph)
        finally:
            self._free.release()
        with self._lock:
            if isinstance(result, str):
                self._counts[result] += 1
            else:
                self._failed.append({"key": graph.entry.key, **result})
            self._done(self._counts.total() + len(self._failed))

    def _ask(self, graph: Unsealed) -> str | dict[str, str]:
        entry = graph.entry
        measures = _measures(graph.content)
        request = OpenCompile(
            client=this_version(),
            key=entry.key,
            toolchain=entry.toolchain,
            kind=entry.kind,
            requester=Requester(job=os.environ.get("INDUCTORD_JOB") or _JOB, world_size=1, pid=os.getpid()),
            nodes=entry.nodes,
            key_parts=entry.key_parts,
            # A rank that comes meanwhile goes first.
            speculative=True,
            needs_device=measures,
        )
        try:
            received = self._client.compile(
                request, lambda: graph.content, _silent, _MAX_WAIT_S, compile_here=_no_device if measures else None
            )
        except CompileFailed as failed:
            kind = FailureKind.Name(failed.failure.kind).removeprefix("FAILURE_KIND_").lower()
            return {"reason": kind, "message": failed.failure.message}
        except Unavailable as lost:
            return {"reason": lost.reason.value, "message": str(lost)}
        return "stored" if received.served == SERVED_HIT else "compiled"


def _measures(graph: bytes) -> bool:
    try:
        return GraphPayload.FromString(graph).measures
    except DecodeError:  # what is wrong with it is a worker's to say
        return False


def _no_device() -> bytes:
    raise Unavailable(Fallback.POOL_UNAVAILABLE, "its compile measures on a device, and no worker has one")


def _silent(progress: Progress) -> None:
    """The bar shows what is done; where each compile stands is the status's to say."""
