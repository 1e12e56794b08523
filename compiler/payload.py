"""Graphs and artifacts as the bytes that travel: protobuf around what PyTorch's serialisers write. The daemon keeps out."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from inductord.compiler import accelerator as accelerators
from inductord.compiler.accelerator import Accelerator
from inductord.compiler.relocate import Span, Table
from inductord.compiler.versions import KEY_FORMAT
from inductord.v1.compiler_pb2 import GraphKind, Toolchain
from inductord.v1.payload_pb2 import ArtifactPayload, GraphPayload, Relocations, SharedObject
from inductord.v1.payload_pb2 import Span as SpanMessage


class PayloadError(ValueError):
    """Bytes that are no payload, or one of another format or key."""


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """A C++ kernel library. ``cache_path``: where Inductor would have built it, relative to its cache folder."""

    content: bytes
    cache_path: str


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A graph on its way to a worker. ``ambient``: process settings; ``content``: from ``adapter.wire.dumps``;
    ``accelerator``: what it runs on, None for the CPU; ``own_device``: which device is the rank's own; ``key_parts``: what the
    rank made its key of; ``measures``: it is compiled on a real device, where Inductor measures kernels or values
    of the graph lie."""

    toolchain: Toolchain
    kind: GraphKind
    ambient: Mapping[str, Any]
    content: bytes
    accelerator: Accelerator | None = None
    own_device: int = 0
    key_parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    measures: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled graph on its way back. ``libraries``: C++ kernel libraries by source digest; ``relocations``: where its
    source names the own device, None for the CPU."""

    key: str
    content: bytes
    libraries: Mapping[str, Library]
    relocations: Table | None = None


def pack_graph(graph: Graph) -> bytes:
    """A serialised ``GraphPayload``."""
    return GraphPayload(
        key_format=KEY_FORMAT,
        toolchain=graph.toolchain,
        kind=graph.kind,
        ambient=json.dumps(dict(graph.ambient), sort_keys=True),
        graph=graph.content,
        accelerator=graph.accelerator.message() if graph.accelerator else None,
        own_device=graph.own_device,
        key_parts=graph.key_parts,
        measures=graph.measures,
    ).SerializeToString()


def unpack_graph(content: bytes) -> Graph:
    """The graph in a serialised ``GraphPayload``.

    Raises:
        PayloadError: it is not one, or of another key format.
    """
    try:
        payload = GraphPayload.FromString(content)
        ambient = json.loads(payload.ambient or "{}")
        described = accelerators.from_message(payload.accelerator) if payload.HasField("accelerator") else None
    except (DecodeError, ValueError) as error:
        raise PayloadError(f"not a graph: {error}") from error
    _check_format(payload.key_format)
    if not isinstance(ambient, dict):
        raise PayloadError("process settings are no JSON object")
    return Graph(
        toolchain=payload.toolchain,
        kind=payload.kind,
        ambient=ambient,
        content=payload.graph,
        accelerator=described,
        own_device=payload.own_device,
        key_parts=dict(payload.key_parts),
        measures=payload.measures,
    )


def pack_artifact(artifact: Artifact) -> bytes:
    """A serialised ``ArtifactPayload``; equal artifacts give equal bytes."""
    return ArtifactPayload(
        key_format=KEY_FORMAT,
        key=artifact.key,
        compiled_graph=artifact.content,
        shared_objects=[
            SharedObject(source_digest=digest, content=library.content, cache_path=library.cache_path)
            for digest, library in sorted(artifact.libraries.items())
        ],
        relocations=_relocations(artifact.relocations) if artifact.relocations else None,
    ).SerializeToString()


def _relocations(table: Table) -> Relocations:
    return Relocations(
        records=[SpanMessage(start=span.start, end=span.end) for span in table.records],
        kernels=[SpanMessage(start=span.start, end=span.end) for span in table.kernels],
    )


def _table(message: Relocations) -> Table:
    records = tuple(Span(span.start, span.end) for span in message.records)
    return Table(records, tuple(Span(span.start, span.end) for span in message.kernels))


def unpack_artifact(content: bytes, key: str) -> Artifact:
    """The artifact in a serialised ``ArtifactPayload`` that was asked for under ``key``.

    Raises:
        PayloadError: it is not one, of another key format, or of another graph.
    """
    try:
        payload = ArtifactPayload.FromString(content)
    except DecodeError as error:
        raise PayloadError(f"not an artifact: {error}") from error
    _check_format(payload.key_format)
    if payload.key != key:
        raise PayloadError(f"the artifact is of another graph ({payload.key[:12]}, asked for {key[:12]})")
    libraries = {so.source_digest: Library(so.content, so.cache_path) for so in payload.shared_objects}
    relocations = _table(payload.relocations) if payload.HasField("relocations") else None
    return Artifact(payload.key, payload.compiled_graph, libraries, relocations)


def _check_format(key_format: int) -> None:
    if key_format != KEY_FORMAT:
        raise PayloadError(f"format {key_format}, this release reads {KEY_FORMAT}")
