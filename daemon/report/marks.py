"""What is drawn: kinds of marks, with the words that explain them, and lanes of marks. No drawing here, and no time."""

import dataclasses
from collections.abc import Mapping, Sequence

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
)

LEGEND: Mapping[str, str] = {
    "trace": "tracing (Dynamo, AOTAutograd)",
    "key": "computing keys",
    "serialize": "serialising a graph",
    "led": "waiting for a compile that this rank asked for first",
    "joined": "waiting for a compile that another rank asked for first",
    "hit": "fetching a stored artifact",
    "lost": "waiting in vain",
    "load": "loading the artifact",
    "local": "compiling in the rank",
    "queued": "compiles that wait for a worker",
    "compile": "compiling in a worker",
    "unpack": "loading the graph",
    "pack": "packing the artifact",
    "failed": "a compile that failed",
    "abandoned": "a compile that nobody waited for any more",
}
"""What each kind of mark means. The kinds are class names on the page."""

RANK_KINDS = ("trace", "key", "serialize", "led", "joined", "hit", "lost", "load", "local")
WORKER_KINDS = ("queued", "unpack", "key", "compile", "pack", "failed", "abandoned")

_STAGES: Mapping[int, str] = {
    STAGE_KIND_TRACE: "trace",
    STAGE_KIND_LAZY_BACKWARD: "trace",
    STAGE_KIND_KEY: "key",
    STAGE_KIND_SERIALIZE: "serialize",
    STAGE_KIND_LOAD: "load",
    STAGE_KIND_LOCAL_COMPILE: "local",
}
_WAITS: Mapping[int, str] = {SERVED_LED: "led", SERVED_JOINED: "joined", SERVED_HIT: "hit"}
_PHASES = {"load": "unpack", "key": "key", "compile": "compile", "pack": "pack"}


def kind_of_stage(span: RankSpan, stage: int) -> str:
    """The kind of mark for a stage of a span; a wait is told by how it ended."""
    return _WAITS.get(span.served, "lost") if stage == STAGE_KIND_WAIT else _STAGES.get(stage, "trace")


def kind_of_phase(phase: str) -> str:
    """The kind of mark for a phase of a worker; a later release may have more of them."""
    return _PHASES.get(phase, "compile")


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """A rectangle from ``x`` over ``width`` units. ``place``: ``whole``, ``upper`` or ``lower`` part of the lane's height."""

    kind: str
    x: float
    width: float
    place: str = "whole"


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """Marks that belong together. ``graph``: its number, None for a frame. ``title``: lines that explain it."""

    marks: Sequence[Mark]
    title: str
    graph: int | None = None
    # The mark where a compile ends, or a wait for it: flows are drawn from the former to the latter.
    end: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Area:
    """How many of the lane's ranks do this, over the width: (x, from, to) with shares of the height from 0 to 1."""

    kind: str
    points: Sequence[tuple[float, float, float]]


@dataclasses.dataclass(frozen=True, slots=True)
class Lane:
    """One row. ``note``: a few words under its label; ``summary``: a sentence for those who cannot see it."""

    label: str
    note: str
    summary: str
    items: Sequence[Item] = ()
    areas: Sequence[Area] = ()
