"""Graphs and artifacts as the bytes that travel: protobuf around what PyTorch's serialisers write. The daemon keeps out."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from inductord.compiler.versions import KEY_FORMAT
from inductord.v1.compiler_pb2 import GraphKind, Toolchain
from inductord.v1.payload_pb2 import ArtifactPayload, GraphPayload, SharedObject


class PayloadError(ValueError):
    """Bytes that are no payload, or one of another format or key."""


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """A C++ kernel library. ``cache_path``: where Inductor would have built it, relative to its cache folder."""

    content: bytes
    cache_path: str


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A graph on its way to a worker. ``ambient``: process settings; ``content``: from ``adapter.wire.dumps``."""

    toolchain: Toolchain
    kind: GraphKind
    ambient: Mapping[str, Any]
    content: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled graph on its way back. ``libraries``: C++ kernel libraries by source digest."""

    key: str
    content: bytes
    libraries: Mapping[str, Library]


def pack_graph(graph: Graph) -> bytes:
    """A serialised ``GraphPayload``."""
    return GraphPayload(
        key_format=KEY_FORMAT,
        toolchain=graph.toolchain,
        kind=graph.kind,
        ambient=json.dumps(dict(graph.ambient), sort_keys=True),
        graph=graph.content,
    ).SerializeToString()


def unpack_graph(content: bytes) -> Graph:
    """The graph in a serialised ``GraphPayload``.

    Raises:
        PayloadError: it is not one, or of another key format.
    """
    try:
        payload = GraphPayload.FromString(content)
        ambient = json.loads(payload.ambient or "{}")
    except (DecodeError, ValueError) as error:
        raise PayloadError(f"not a graph: {error}") from error
    _check_format(payload.key_format)
    if not isinstance(ambient, dict):
        raise PayloadError("process settings are no JSON object")
    return Graph(payload.toolchain, payload.kind, ambient, payload.graph)


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
    ).SerializeToString()


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
    return Artifact(payload.key, payload.compiled_graph, libraries)


def _check_format(key_format: int) -> None:
    if key_format != KEY_FORMAT:
        raise PayloadError(f"format {key_format}, this release reads {KEY_FORMAT}")
