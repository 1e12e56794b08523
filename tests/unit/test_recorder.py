"""A rank that records: one file a graph, whoever comes first; what goes wrong is said and never raised."""

import logging
from pathlib import Path

import pytest
from support.stores import META, key_of

from inductord.compiler.recorder import Recorder
from inductord.v1.compiler_pb2 import OpenCompile, Requester
from inductord.v1.sealed_pb2 import RecordedGraph

pytestmark = pytest.mark.unit

REQUEST = OpenCompile(
    key=key_of(1),
    toolchain=META.toolchain,
    kind=META.kind,
    nodes=7,
    key_parts={"graph": "aa"},
    requester=Requester(job="job"),
)


def never() -> bytes:
    raise AssertionError("serialised for nothing")


def test_a_graph_is_kept_once_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    Recorder(tmp_path).keep(REQUEST, lambda: b"graph")
    for recorder in (Recorder(tmp_path), Recorder(None)):
        recorder.keep(REQUEST, never)
    kept = RecordedGraph.FromString((tmp_path / f"{REQUEST.key}.graph").read_bytes())
    entry = kept.entry
    assert (kept.graph, entry.key, entry.size, entry.nodes, entry.job) == (b"graph", REQUEST.key, 5, 7, "job")
    assert (entry.toolchain, entry.kind, dict(entry.key_parts)) == (META.toolchain, META.kind, {"graph": "aa"})


def test_what_cannot_be_recorded_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Recorder(tmp_path).keep(REQUEST, lambda: 1 / 0)  # type: ignore[arg-type,return-value]
        Recorder(tmp_path / "absent").keep(REQUEST, lambda: b"graph")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "was not recorded" in caplog.text
    assert not list(tmp_path.glob("*.graph"))
