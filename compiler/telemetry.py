"""What this rank did: requests, waits, local compiles by reason. Kept here, reported to the daemon, left in a file at exit.

The file is what ``inductord run`` reads when no daemon is left to ask.
"""

import atexit
import contextlib
import itertools
import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from google.protobuf import json_format

from inductord.compiler import otel
from inductord.compiler.cut_log import CutLog
from inductord.compiler.reasons import Fallback
from inductord.compiler.regions.reasons import RegionResult, WholeReason
from inductord.compiler.settings import RankSettings
from inductord.compiler.timeline import Timeline
from inductord.v1.compiler_pb2 import RankStats, Requester, Served

log = logging.getLogger("inductord")

MAX_KEYS = 10_000
MAX_KEYS_A_REPORT = 256

# PyTorch's own error follows, or the user asked for it.
_SAID_OTHERWISE = frozenset({Fallback.COMPILE_FAILED, Fallback.DISABLED})


class Account(Protocol):
    """What PyTorch says that compiling cost; see ``adapter.accounting.Account``."""

    @property
    def dynamo_seconds(self) -> float: ...
    @property
    def aot_seconds(self) -> float: ...
    @property
    def recompiles(self) -> int: ...
    @property
    def guard_failures(self) -> int: ...


class Telemetry:
    """Counts of one process. Safe to use from several threads. ``timeline``: when it did what; ``cuts``: how its graphs were
    cut."""

    def __init__(self, settings: RankSettings) -> None:
        who: dict[str, otel.Value] = {"inductord.job": settings.job, "inductord.rank": settings.rank}
        self.timeline = Timeline(otel.spans_of("inductord-rank"), who)
        self.cuts = CutLog()
        self._settings = settings
        self._lock = threading.Lock()
        self._stats = RankStats()
        self._keys: set[str] = set()
        self._unreported: dict[str, None] = {}
        self._account: Callable[[], Account] | None = None
        self._told: set[tuple[Fallback, str]] = set()
        self._told_whole: set[WholeReason] = set()

    def requester(self) -> Requester:
        """Who this process is, for the daemon's reports."""
        settings = self._settings
        return Requester(job=settings.job, rank=settings.rank, world_size=settings.world_size, pid=os.getpid())

    def use_account(self, read: Callable[[], Account]) -> None:
        """From now on counts have PyTorch's own account in them, read when they are asked for."""
        self._account = read

    def snapshot(self) -> RankStats:
        """The counts so far, with all keys."""
        return self._copy(self._keys)

    def report(self) -> RankStats:
        """The counts so far, with some of the keys that no report has brought yet."""
        return self._copy(self._unreported, MAX_KEYS_A_REPORT)

    def reported(self, report: RankStats) -> None:
        """A report was taken; its keys need not be sent again."""
        with self._lock:
            for key in report.keys:
                self._unreported.pop(key, None)

    def _copy(self, keys: Iterable[str], most: int = MAX_KEYS) -> RankStats:
        account = self._account() if self._account is not None else None
        with self._lock:
            if account is not None:
                self._stats.dynamo_seconds = account.dynamo_seconds
                self._stats.aot_seconds = account.aot_seconds
                self._stats.recompiles = account.recompiles
                self._stats.guard_failures = account.guard_failures
            copy = RankStats()
            copy.CopyFrom(self._stats)
            copy.keys.extend(sorted(itertools.islice(keys, most)))
            return copy

    def requested(self, key: str, key_seconds: float) -> None:
        """A graph was identified and asked for."""
        with self._lock:
            self._stats.requests += 1
            self._stats.key_seconds += key_seconds
            if len(self._keys) < MAX_KEYS and key not in self._keys:
                self._keys.add(key)
                self._unreported[key] = None

    def sent(self, graph_bytes: int, serialize_seconds: float) -> None:
        """A graph was serialised for the daemon."""
        with self._lock:
            self._stats.graph_bytes += graph_bytes
            self._stats.serialize_seconds += serialize_seconds

    def served(
        self, served: "Served", wait_seconds: float, load_seconds: float, compile_seconds: float, size: int
    ) -> None:
        """An artifact came and was loaded."""
        with self._lock:
            stats = self._stats
            if served == Served.SERVED_HIT:
                stats.hits += 1
            elif served == Served.SERVED_JOINED:
                stats.joined += 1
            else:
                stats.led += 1
            stats.wait_seconds += wait_seconds
            stats.load_seconds += load_seconds
            stats.artifact_bytes += size
            if served != Served.SERVED_LED:
                stats.saved_seconds += compile_seconds

    def fell_back(self, reason: Fallback, message: str, graph: str) -> None:
        """A graph is compiled here. Said once per reason and graph, counted always."""
        with self._lock:
            self._stats.fallbacks[reason.value] += 1
            new = (reason, graph) not in self._told and len(self._told) < MAX_KEYS
            if new:
                self._told.add((reason, graph))
        if new:
            # Ranks meet the same graphs: one of them says it, all of them count it.
            loud = self._settings.rank == 0 and reason not in _SAID_OTHERWISE
            level = logging.WARNING if loud else logging.INFO
            log.log(level, "inductord: %s is compiled by this rank: %s (%s)", graph, message, reason.value)

    def composed(self, pieces: int, distinct: int) -> None:
        """A graph of Dynamo was compiled in pieces."""
        with self._lock:
            self._stats.regions[RegionResult.COMPOSED.value] += 1
            self._stats.region_pieces += pieces
            self._stats.region_distinct += distinct

    def not_cut(self, reason: WholeReason | None, message: str) -> None:
        """A graph of Dynamo is compiled whole; without a reason, because regions are off. Said once per reason."""
        with self._lock:
            self._stats.regions[(RegionResult.OFF if reason is None else RegionResult.WHOLE).value] += 1
            if reason is None:
                return
            self._stats.whole_graphs[reason.value] += 1
            new = reason not in self._told_whole
            self._told_whole.add(reason)
        if new:
            unexpected = self._settings.rank == 0 and reason is WholeReason.ERROR
            level = logging.WARNING if unexpected else logging.INFO
            log.log(level, "inductord: a graph is compiled whole, not in pieces: %s (%s)", message, reason.value)

    def remote_cache(self, what: str) -> None:
        """PyTorch asked one of its remote caches, or gave it something; ``what``: its name and the result."""
        with self._lock:
            self._stats.remote_caches[what] += 1

    def compiled_here(self, seconds: float) -> None:
        """A local compile took this long."""
        with self._lock:
            self._stats.local_compile_seconds += seconds

    def launched(self, seconds: float) -> None:
        """A compiled graph was called for the first time; the host was busy with it for so long."""
        with self._lock:
            self._stats.first_launches += 1
            self._stats.first_launch_seconds += seconds

    def write_at_exit(self) -> None:
        """Leave the counts in ``report_dir`` when the process ends."""
        folder = self._settings.report_dir
        if folder is not None:
            atexit.register(self._write, folder, os.getpid())

    def _write(self, folder: Path, pid: int) -> None:
        if os.getpid() != pid:  # a forked data loader inherits the handler, not the counts
            return
        row = json_format.MessageToDict(self.snapshot(), preserving_proto_field_name=True)
        row |= {
            "rank": self._settings.rank,
            "world_size": self._settings.world_size,
            "pid": pid,
            "job": self._settings.job,
        }
        trace = self.timeline.trace(whole=True)
        if trace.spans:
            row["trace"] = json_format.MessageToDict(trace, preserving_proto_field_name=True)
        try:
            _write_atomically(folder / f"rank-{self._settings.rank}-{pid}.json", row)
        except OSError as error:
            log.warning("inductord: the counts of this rank could not be written to %s: %s", folder, error)


def _write_atomically(path: Path, row: dict[str, object]) -> None:
    """Write one JSON object so that no reader sees half of it.

    Raises:
        OSError: the folder cannot be written.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(row, file)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
