"""What the C++ compiler prepared for one worker reaches later ones, whole and bounded."""

import os
from pathlib import Path

import pytest

from inductord.worker import prepared
from inductord.worker.prepared import Prepared

pytestmark = pytest.mark.unit

PROBE = "inductor/ab/abc.so"
HEADER = "tmp/torchinductor_root/precompiled_headers/cdef.h.gch"


def write(folder: Path, name: str, content: bytes = b"x") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_probes_and_headers_reach_a_later_worker_and_nothing_else_does(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for name in (PROBE, HEADER, "inductor/locks/abc.lock", "tmp/leftover", "triton/kernel"):
        write(first, name)
    kept = Prepared(tmp_path / "kept")
    kept.take(first)
    kept.give(second)
    assert names(second) == {PROBE, HEADER}
    assert os.path.samefile(second / PROBE, first / PROBE)


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, PROBE, b"first")
    write(second, PROBE, b"second")
    kept = Prepared(tmp_path / "kept")
    kept.take(first)
    kept.take(second)
    kept.give(second)
    assert (tmp_path / "kept" / PROBE).read_bytes() == b"first"
    assert (second / PROBE).read_bytes() == b"second"


def test_a_worker_outlives_the_folder(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    path = write(first, PROBE)
    kept = Prepared(tmp_path / "kept")
    kept.take(first)
    path.unlink()
    kept.give(second)
    assert names(second) == {PROBE}


def test_the_oldest_files_go_when_they_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "_MAX_BYTES", 250)
    for age in range(4):
        path = write(tmp_path / "worker", f"inductor/ab/{age}.so", b"x" * 100)
        os.utime(path, (1_000 - age, 1_000 - age))
    Prepared(tmp_path / "kept").take(tmp_path / "worker")
    assert names(tmp_path / "kept") == {"inductor/ab/0.so", "inductor/ab/1.so"}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    write(tmp_path / "worker", PROBE)
    write(tmp_path, "kept", b"a file where the folder should be")
    Prepared(tmp_path / "kept").take(tmp_path / "worker")
    assert (tmp_path / "worker" / PROBE).exists()
