"""Orders, spans and whole jobs as ranks and daemons record them, made up in memory."""

import hashlib
from collections.abc import Iterable, Iterator

from inductord.compiler.versions import this_version
from inductord.daemon.orders import Order, parse_order
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import JobSummary, Timeline
from inductord.v1.timeline_pb2 import (
    COMPILE_OUTCOME_COMPILED,
    CompilePhase,
    CompileRecord,
    RankTimeline,
)

NOW = 1_700_000_000.0


def key(name: str) -> str:
    """A key for a graph of that name."""
    return hashlib.sha256(name.encode()).hexdigest()


def an_order(name: str = "graph", *, job: str = "job", rank: int = 0) -> Order:
    """What a rank asks for."""
    opening = pb.OpenCompile(
        client=this_version(),
        key=key(name),
        kind=pb.GRAPH_KIND_FORWARD,
        nodes=7,
        requester=pb.Requester(job=job, rank=rank, world_size=4, pid=1),
    )
    return parse_order(opening)


def a_span(name: str, start: float, stages: Iterable[tuple[int, float, float]], **fields: object) -> pb.RankSpan:
    """A graph on its way; ``start``: seconds after ``NOW``, ``stages``: kind, offset, seconds."""
    fields = {"start_unix": NOW + start, "key": bytes.fromhex(key(name)), "nodes": 7} | fields
    span = pb.RankSpan(**fields)  # type: ignore[arg-type]
    for kind, offset, seconds in stages:
        span.stages.add(kind=kind, offset_seconds=offset, seconds=seconds)  # type: ignore[arg-type]
    return span


def a_job(ranks: int = 4, graphs: int = 2, *, name: str = "llama", compile_seconds: float = 8.0) -> Timeline:
    """A job in which rank ``g % ranks`` leads graph ``g``, the others join it, and each rank traces for a second before
    each graph. Workers compile side by side."""
    timeline = Timeline(taken_unix=NOW + graphs * (compile_seconds + 2) + 5)
    timeline.job.CopyFrom(
        JobSummary(
            job=name,
            ranks=ranks,
            world_size=ranks,
            graphs=graphs,
            compiles=graphs,
            sum=pb.RankStats(
                requests=ranks * graphs,
                led=graphs,
                joined=(ranks - 1) * graphs,
                saved_seconds=compile_seconds * (ranks - 1) * graphs,
                wait_seconds=compile_seconds * ranks * graphs,
            ),
        )
    )
    timeline.compiles.extend(_compiles(ranks, graphs, compile_seconds))
    for rank in range(ranks):
        timeline.ranks.append(
            RankTimeline(rank=rank, pid=100 + rank, host="node", spans=_spans(rank, ranks, graphs, compile_seconds))
        )
    return timeline


def _compiles(ranks: int, graphs: int, seconds: float) -> Iterator[CompileRecord]:
    for graph in range(graphs):
        queued = NOW + graph * (seconds + 2) + 1.2
        yield CompileRecord(
            key=bytes.fromhex(key(f"graph {graph}")),
            kind=pb.GRAPH_KIND_FORWARD if graph % 2 == 0 else pb.GRAPH_KIND_BACKWARD,
            nodes=100 + graph,
            rank=graph % ranks,
            attempt=1,
            queued_unix=queued,
            started_unix=queued + 0.1,
            ended_unix=queued + 0.1 + seconds,
            compile_seconds=seconds,
            outcome=COMPILE_OUTCOME_COMPILED,
            worker=f"worker {900 + graph % 2}",
            phases=[
                CompilePhase(name="load", seconds=seconds * 0.1),
                CompilePhase(name="key", seconds=seconds * 0.05),
                CompilePhase(name="compile", seconds=seconds * 0.8),
                CompilePhase(name="pack", seconds=seconds * 0.05),
            ],
        )


def _spans(rank: int, ranks: int, graphs: int, seconds: float) -> Iterator[pb.RankSpan]:
    for graph in range(graphs):
        start = graph * (seconds + 2)
        frame = pb.RankSpan(start_unix=NOW + start, compile_id=f"{graph}/0")
        frame.stages.add(kind=pb.STAGE_KIND_TRACE, seconds=seconds + 1.9)
        leads = graph % ranks == rank
        stages = [(pb.STAGE_KIND_KEY, 0.0, 0.1), (pb.STAGE_KIND_WAIT, 0.1, seconds + 0.3)]
        if leads:
            stages.append((pb.STAGE_KIND_SERIALIZE, 0.1, 0.1))
        stages.append((pb.STAGE_KIND_LOAD, seconds + 0.4, 0.4))
        served = pb.SERVED_LED if leads else pb.SERVED_JOINED
        kind = pb.GRAPH_KIND_FORWARD if graph % 2 == 0 else pb.GRAPH_KIND_BACKWARD
        yield a_span(f"graph {graph}", start + 1, stages, served=served, kind=kind, nodes=100 + graph)
        yield frame
