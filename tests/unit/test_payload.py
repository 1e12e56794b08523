"""Graphs and artifacts as bytes: whole, or refused."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductord.compiler import payload
from inductord.compiler.payload import Artifact, Graph, Library, PayloadError
from inductord.compiler.versions import KEY_FORMAT
from inductord.v1.compiler_pb2 import GRAPH_KIND_BACKWARD, Toolchain
from inductord.v1.payload_pb2 import ArtifactPayload, GraphPayload

pytestmark = pytest.mark.unit

KEY = "ab" * 32
GRAPH = Graph(Toolchain(torch="2.13.0"), GRAPH_KIND_BACKWARD, {"num_threads": 4, "list": [True, None]}, b"\0graph")
ARTIFACT = Artifact(KEY, b"\0compiled", {"d1": Library(b"\x7fELF", "cxy/cxyz.so"), "d0": Library(b"", "")})


def test_a_graph_comes_back_as_it_was() -> None:
    assert payload.unpack_graph(payload.pack_graph(GRAPH)) == GRAPH


def test_an_artifact_comes_back_as_it_was() -> None:
    assert payload.unpack_artifact(payload.pack_artifact(ARTIFACT), KEY) == ARTIFACT


@given(st.binary(), st.dictionaries(st.text(max_size=8), st.builds(Library, st.binary(), st.text()), max_size=4))
def test_any_artifact_comes_back_as_it_was(content: bytes, libraries: dict[str, Library]) -> None:
    artifact = Artifact(KEY, content, libraries)
    assert payload.unpack_artifact(payload.pack_artifact(artifact), KEY) == artifact


def test_equal_artifacts_are_equal_bytes() -> None:
    reordered = Artifact(KEY, ARTIFACT.content, dict(reversed(ARTIFACT.libraries.items())))
    assert payload.pack_artifact(reordered) == payload.pack_artifact(ARTIFACT)


def test_an_artifact_of_another_graph_is_refused() -> None:
    with pytest.raises(PayloadError, match=r"of another graph \(abab.*asked for cdcd"):
        payload.unpack_artifact(payload.pack_artifact(ARTIFACT), "cd" * 32)


def _graph(**changes: Any) -> bytes:
    return _changed(GraphPayload.FromString(payload.pack_graph(GRAPH)), changes)


def _artifact(**changes: Any) -> bytes:
    return _changed(ArtifactPayload.FromString(payload.pack_artifact(ARTIFACT)), changes)


def _changed(message: Any, changes: dict[str, Any]) -> bytes:
    for name, value in changes.items():
        setattr(message, name, value)
    content: bytes = message.SerializeToString()
    return content


@pytest.mark.parametrize("other", [0, KEY_FORMAT + 1, 2**32 - 1])
def test_another_format_is_refused(other: int) -> None:
    with pytest.raises(PayloadError, match=f"format {other}, this release reads {KEY_FORMAT}"):
        payload.unpack_graph(_graph(key_format=other))
    with pytest.raises(PayloadError, match=f"format {other}, this release reads {KEY_FORMAT}"):
        payload.unpack_artifact(_artifact(key_format=other), KEY)


@pytest.mark.parametrize("ambient", ["{", "[1]", "3", '"text"', "nan"])
def test_process_settings_that_are_no_object_are_refused(ambient: str) -> None:
    with pytest.raises(PayloadError):
        payload.unpack_graph(_graph(ambient=ambient))


def _unpack_artifact(content: bytes) -> object:
    return payload.unpack_artifact(content, KEY)


@pytest.mark.parametrize("unpack", [payload.unpack_graph, _unpack_artifact])
@given(content=st.binary(max_size=200))
def test_garbage_is_refused(unpack: Callable[[bytes], object], content: bytes) -> None:
    # Protobuf reads many bytes as something; what it reads then has no format of ours.
    with pytest.raises(PayloadError):
        unpack(content)


@given(st.integers(0, len(payload.pack_artifact(ARTIFACT)) - 1))
def test_a_cut_artifact_is_refused_or_visibly_less(length: int) -> None:
    # A cut at a field's border is valid protobuf. That the whole came is for the digest to say, not for this layer.
    try:
        artifact = payload.unpack_artifact(payload.pack_artifact(ARTIFACT)[:length], KEY)
    except PayloadError:
        return
    assert artifact != ARTIFACT
