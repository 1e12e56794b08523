"""When things happened in one job: what its ranks reported and what became of its compiles. Bounded, and says what it dropped.

Pure, with an injected wall clock. Spans are kept as bytes: that is a third of the memory of messages, and they are looked
at when somebody asks for a report.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterator

from inductord.daemon.orders import Order
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.compiler_pb2 import RankSpan, RankTrace
from inductord.v1.timeline_pb2 import (
    COMPILE_OUTCOME_ABANDONED,
    COMPILE_OUTCOME_COMPILED,
    COMPILE_OUTCOME_COMPILING,
    COMPILE_OUTCOME_FAILED,
    COMPILE_OUTCOME_QUEUED,
    CompilePhase,
    CompileRecord,
    RankTimeline,
)
from inductord.worker.pool import Compiled, Outcome

MAX_COMPILES = 2000
MAX_RANKS = 4096
MAX_SPANS = 200_000
MAX_SPANS_A_RANK = 2000

_MESSAGE_LENGTH = 500
# In the order in which a worker does them; what a later release adds comes after.
_PHASES = ("load", "key", "compile", "pack")
_SPANS_A_PART = 5000


@dataclasses.dataclass(slots=True)
class _Rank:
    """``taken``: how many spans the rank recorded that need not be sent again."""

    host: str = ""
    clock_ahead: float = 0.0
    taken: int = 0
    dropped: int = 0
    spans: collections.deque[bytes] = dataclasses.field(default_factory=collections.deque)


class JobTimeline:
    """Of one job. ``spans``: how many are held over all ranks."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._clock = wall_clock
        self._compiles: collections.deque[CompileRecord] = collections.deque(maxlen=MAX_COMPILES)
        self._compiles_dropped = 0
        self._open: dict[str, CompileRecord] = {}
        self._ranks: dict[tuple[int, int], _Rank] = {}
        self.spans = 0

    # What the daemon sees

    def queued(self, order: Order, attempt: int) -> None:
        """A graph goes to the pool."""
        record = CompileRecord(
            key=bytes.fromhex(order.plain_key),
            kind=order.kind,
            nodes=order.nodes,
            rank=order.rank,
            attempt=attempt,
            queued_unix=self._clock(),
            outcome=COMPILE_OUTCOME_QUEUED,
        )
        self._compiles_dropped += len(self._compiles) == MAX_COMPILES
        self._compiles.append(record)
        self._open[order.key] = record

    def started(self, key: str) -> None:
        """A worker took it."""
        if record := self._open.get(key):
            record.started_unix = self._clock()
            record.outcome = COMPILE_OUTCOME_COMPILING

    def ended(self, key: str, outcome: Outcome) -> None:
        """The pool is done with it."""
        record = self._open.pop(key, None)
        if record is None:
            return
        record.ended_unix = self._clock()
        record.compile_seconds = outcome.compile_seconds
        record.worker = outcome.worker
        if isinstance(outcome, Compiled):
            record.outcome = COMPILE_OUTCOME_COMPILED
            ordered = sorted(outcome.phases, key=lambda name: (_place(name), name))
            record.phases.extend(CompilePhase(name=name, seconds=outcome.phases[name]) for name in ordered)
        else:
            record.outcome = COMPILE_OUTCOME_FAILED
            record.failure = outcome.failure.kind
            record.message = outcome.failure.message[:_MESSAGE_LENGTH]

    def abandoned(self, key: str) -> None:
        """It was taken back."""
        if record := self._open.pop(key, None):
            record.ended_unix = self._clock()
            record.outcome = COMPILE_OUTCOME_ABANDONED

    # What ranks tell

    def traced(self, rank: int, pid: int, trace: RankTrace) -> int:
        """Add what is new in ``trace``, which ``orders.check_trace`` let pass. Returns up to where it need not be sent
        again. The oldest spans of the rank make room, also when the job as a whole is full."""
        end = trace.first + len(trace.spans)
        entry = self._ranks.get((rank, pid))
        if entry is None:
            if len(self._ranks) >= MAX_RANKS:
                return end
            entry = self._ranks[rank, pid] = _Rank()
        entry.host = trace.host
        if trace.HasField("clock_ahead_seconds"):
            entry.clock_ahead = trace.clock_ahead_seconds
        entry.dropped += max(trace.first - entry.taken, 0)
        new = trace.spans[max(entry.taken - trace.first, 0) :]
        for span in new:
            entry.spans.append(span.SerializeToString())
        self.spans += len(new)
        while entry.spans and (len(entry.spans) > MAX_SPANS_A_RANK or self.spans > MAX_SPANS):
            entry.spans.popleft()
            entry.dropped += 1
            self.spans -= 1
        entry.taken = max(entry.taken, end)
        return entry.taken

    def shrink(self, most: int) -> int:
        """Let the oldest spans of each rank go until there are at most ``most``; returns how many went."""
        if self.spans <= most:
            return 0
        each = most // max(len(self._ranks), 1)
        gone = 0
        for entry in self._ranks.values():
            while len(entry.spans) > each:
                entry.spans.popleft()
                entry.dropped += 1
                gone += 1
        self.spans -= gone
        return gone

    def parts(self) -> Iterator[Timeline]:
        """All of it, by the daemon's clock: the compiles, then the ranks, few enough in each part for one message."""
        yield Timeline(compiles=list(self._compiles), compiles_dropped=self._compiles_dropped)
        part = Timeline()
        size = 0
        for (rank, pid), entry in sorted(self._ranks.items()):
            part.ranks.append(
                RankTimeline(
                    rank=rank,
                    pid=pid,
                    host=entry.host,
                    clock_ahead_seconds=entry.clock_ahead,
                    dropped=entry.dropped,
                    spans=[_shifted(raw, entry.clock_ahead) for raw in entry.spans],
                )
            )
            size += len(entry.spans)
            if size >= _SPANS_A_PART:
                yield part
                part, size = Timeline(), 0
        yield part


def _place(phase: str) -> int:
    return _PHASES.index(phase) if phase in _PHASES else len(_PHASES)


def _shifted(raw: bytes, seconds: float) -> RankSpan:
    span = RankSpan.FromString(raw)
    span.start_unix += seconds
    return span
