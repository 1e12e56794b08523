"""Numbers of a job's timeline: per graph who asked and who waited, per rank where its time went. Pure."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from inductord.daemon.report.scale import merged_stretches
from inductord.v1.admin_pb2 import Timeline
from inductord.v1.compiler_pb2 import (
    SERVED_HIT,
    SERVED_JOINED,
    SERVED_LED,
    STAGE_KIND_KEY,
    STAGE_KIND_LAZY_BACKWARD,
    STAGE_KIND_LOAD,
    STAGE_KIND_LOCAL_COMPILE,
    STAGE_KIND_SERIALIZE,
    STAGE_KIND_TRACE,
    STAGE_KIND_WAIT,
    RankSpan,
    Stage,
)
from inductord.v1.timeline_pb2 import CompileRecord

FRAMES = frozenset({STAGE_KIND_TRACE, STAGE_KIND_LAZY_BACKWARD})

# A graph that was asked for ahead of time is there when it is needed.
_WORTH_NAMING_S = 0.01


@dataclasses.dataclass(slots=True)
class GraphFacts:
    """One distinct graph in one job. Times in seconds.

    ``number``: its place in the order in which graphs first came, from 0. ``compile``: the last attempt of the pool, None when
    the artifact was stored before the job began. ``waiting``: the wait of each rank that led or joined.
    """

    number: int
    key: str
    kind: int = 0
    nodes: int = 0
    led: int = 0
    joined: int = 0
    hits: int = 0
    attempts: int = 0
    compile: CompileRecord | None = None
    waiting: dict[int, float] = dataclasses.field(default_factory=dict)
    fallbacks: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def waited(self) -> float:
        """Summed over the ranks."""
        return sum(self.waiting.values())

    @property
    def requests(self) -> int:
        """How often the graph was asked for and served."""
        return self.led + self.joined + self.hits


@dataclasses.dataclass(slots=True)
class RankFacts:
    """Where the compile time of one rank's process went, in seconds. The parts do not overlap.

    ``trace``: Dynamo and AOTAutograd, without what follows. ``wait``: for the daemon, without ``serialize``.
    """

    rank: int
    pid: int
    host: str
    trace: float = 0.0
    key: float = 0.0
    serialize: float = 0.0
    wait: float = 0.0
    load: float = 0.0
    local: float = 0.0
    led: int = 0
    joined: int = 0
    hits: int = 0
    fallbacks: int = 0
    dropped: int = 0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.trace + self.key + self.serialize + self.wait + self.load + self.local


PARTS = ("trace", "key", "serialize", "wait", "load", "local")
"""Fields of ``RankFacts`` that are times, in the order in which they pass."""


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """``start``, ``end``: of everything that happened, in seconds since 1970; equal when nothing did. ``busy``: start and end
    of each thing that happened. ``numbers``: of graphs, by key."""

    start: float
    end: float
    busy: Sequence[tuple[float, float]]
    graphs: Sequence[GraphFacts]
    ranks: Sequence[RankFacts]
    numbers: dict[bytes, int]

    def slowest(self, count: int) -> list[GraphFacts]:
        """Graphs that were compiled for the job, the longest compile first."""
        compiled = [graph for graph in self.graphs if graph.compile is not None]
        return sorted(compiled, key=lambda graph: -compile_time(graph.compile))[:count]

    def most_waited_for(self, count: int) -> list[GraphFacts]:
        """Graphs by the time that ranks waited for them, the longest first."""
        waited = [graph for graph in self.graphs if graph.waited > _WORTH_NAMING_S]
        return sorted(waited, key=lambda graph: -graph.waited)[:count]


def compile_time(record: CompileRecord | None) -> float:
    """Seconds that a worker had the graph; 0 while none has."""
    if record is None or not record.started_unix or not record.ended_unix:
        return 0.0
    return max(record.ended_unix - record.started_unix, 0.0)


def end_of(record: CompileRecord, now: float) -> float:
    """When it ended; now while it goes on."""
    return record.ended_unix or now


def find(timeline: Timeline) -> Facts:
    """The facts of a timeline."""
    graphs: dict[bytes, GraphFacts] = {}
    busy: list[tuple[float, float]] = []

    def graph_of(key: bytes, kind: int, nodes: int) -> GraphFacts:
        graph = graphs.get(key)
        if graph is None:
            graph = graphs[key] = GraphFacts(len(graphs), key.hex())
        graph.kind, graph.nodes = kind or graph.kind, nodes or graph.nodes
        return graph

    for record in sorted(timeline.compiles, key=lambda record: record.queued_unix):
        graph = graph_of(record.key, record.kind, record.nodes)
        graph.compile = record
        graph.attempts += 1
        busy.append((record.queued_unix, end_of(record, timeline.taken_unix)))
    ranks = []
    for rank in timeline.ranks:
        of_rank = RankFacts(rank.rank, rank.pid, rank.host, dropped=rank.dropped)
        frames: list[tuple[float, float]] = []
        on_their_way: list[tuple[float, float]] = []
        for span in rank.spans:
            sums = _sums(span.stages)
            stretch = (span.start_unix, end_of_span(span))
            busy.append(stretch)
            (on_their_way if FRAMES.isdisjoint(sums) else frames).append(stretch)
            _add(of_rank, span, sums)
            if span.key:
                _count(graph_of(span.key, span.kind, span.nodes), rank.rank, span, sums)
        of_rank.trace = _outside(frames, on_their_way)
        ranks.append(of_rank)
    return Facts(
        start=min((start for start, _ in busy), default=timeline.taken_unix),
        end=max((end for _, end in busy), default=timeline.taken_unix),
        busy=busy,
        graphs=list(graphs.values()),
        ranks=ranks,
        numbers={key: graph.number for key, graph in graphs.items()},
    )


def end_of_span(span: RankSpan) -> float:
    """When its last stage ended."""
    return span.start_unix + max((stage.offset_seconds + stage.seconds for stage in span.stages), default=0.0)


def is_frame(span: RankSpan) -> bool:
    """Whether it is a frame that was traced, and not a graph."""
    return any(stage.kind in FRAMES for stage in span.stages)


def _count(graph: GraphFacts, rank: int, span: RankSpan, sums: Mapping[int, float]) -> None:
    graph.led += span.served == SERVED_LED
    graph.joined += span.served == SERVED_JOINED
    graph.hits += span.served == SERVED_HIT
    if span.fallback:
        graph.fallbacks[span.fallback] = graph.fallbacks.get(span.fallback, 0) + 1
    if span.served != SERVED_HIT:
        waited = sums.get(STAGE_KIND_WAIT, 0.0)
        if waited:
            graph.waiting[rank] = graph.waiting.get(rank, 0.0) + waited


def _add(facts: RankFacts, span: RankSpan, sums: Mapping[int, float]) -> None:
    serialize = sums.get(STAGE_KIND_SERIALIZE, 0.0)
    facts.key += sums.get(STAGE_KIND_KEY, 0.0)
    facts.serialize += serialize
    facts.wait += sums.get(STAGE_KIND_WAIT, 0.0) - (_within_waits(span.stages) if serialize else 0.0)
    facts.load += sums.get(STAGE_KIND_LOAD, 0.0)
    facts.local += sums.get(STAGE_KIND_LOCAL_COMPILE, 0.0)
    facts.led += span.served == SERVED_LED
    facts.joined += span.served == SERVED_JOINED
    facts.hits += span.served == SERVED_HIT
    facts.fallbacks += bool(span.fallback)


def _sums(stages: Iterable[Stage]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for stage in stages:
        sums[stage.kind] = sums.get(stage.kind, 0.0) + stage.seconds
    return sums


def _within_waits(stages: Iterable[Stage]) -> float:
    """Seconds of serialising that were part of a wait. A graph that is asked for ahead of time is serialised before that."""
    waits = [stage for stage in stages if stage.kind == STAGE_KIND_WAIT]
    return sum(
        max(
            min(wait.offset_seconds + wait.seconds, stage.offset_seconds + stage.seconds)
            - max(wait.offset_seconds, stage.offset_seconds),
            0.0,
        )
        for stage in stages
        if stage.kind == STAGE_KIND_SERIALIZE
        for wait in waits
    )


def _outside(frames: list[tuple[float, float]], graphs: list[tuple[float, float]]) -> float:
    """Seconds of ``frames`` in which no graph was on its way. Graphs may be that side by side, frames are not."""
    merged = merged_stretches(graphs)
    total = 0.0
    first = 0
    for begin, end in sorted(frames):
        total += end - begin
        while first < len(merged) and merged[first][1] <= begin:
            first += 1
        for index in range(first, len(merged)):
            start, stop = merged[index]
            if start >= end:
                break
            total -= max(min(stop, end) - max(start, begin), 0.0)
    return max(total, 0.0)
