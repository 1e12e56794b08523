"""The identity of compiler and CPU."""

import os
from pathlib import Path

import pytest

from inductord.compiler import toolchain

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    toolchain._identity_of.cache_clear()
    toolchain._cpu_features.cache_clear()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    return folder


def compiler(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_without_a_compiler_there_is_no_identity(path: Path) -> None:
    assert toolchain.cxx_identity() == ""
    assert toolchain.cxx_identity(("clang++", "icpx")) == ""


def test_the_identity_is_the_version_line_and_a_digest_of_all_lines(path: Path) -> None:
    compiler(path, "g++", "echo 'g++ (Test) 12.3'; echo 'more'")
    first = toolchain.cxx_identity()
    assert first.startswith("g++ (Test) 12.3 #")
    compiler(path, "other++", "echo 'g++ (Test) 12.3'; echo 'less'")
    second = toolchain.cxx_identity(("other++",))
    assert second.startswith("g++ (Test) 12.3 #")
    assert first != second


def test_the_same_compiler_elsewhere_is_the_same(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(path, "g++", "echo 'g++ (Test) 12.3'")
    here = toolchain.cxx_identity()
    path.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    assert toolchain.cxx_identity() == here


def test_the_version_is_asked_in_plain_english(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    compiler(path, "g++", 'echo "speaks $LC_ALL"')
    assert toolchain.cxx_identity().startswith("speaks C #")


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$"])
def test_a_compiler_that_does_not_run_is_none(path: Path, script: str) -> None:
    compiler(path, "g++", script)
    assert toolchain.cxx_identity() == ""


def test_the_first_that_is_there_counts(path: Path) -> None:
    compiler(path, "clang++", "echo clang")
    assert toolchain.cxx_identity(("g++", "clang++")).startswith("clang #")


def test_candidates_are_those_of_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    assert toolchain.cxx_candidates() == ("g++",)
    monkeypatch.setenv("CXX", "clang++")
    assert toolchain.cxx_candidates() == ("clang++",)
    assert toolchain.cxx_candidates("icpx") == ("icpx",)
    assert toolchain.cxx_candidates((None, "clang++", "g++")) == ("clang++", "g++")


def cpuinfo(folder: Path, text: str) -> str:
    file = folder / "cpuinfo"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("text", "widest"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx avx2 avx512f\n", "avx512f"),
        ("flags : fpu avx avx2\n", "avx2"),
        ("Features\t: fp asimd sve\n", "sve"),
        ("Features\t: fp asimd\n", "asimd"),
        ("flags : fpu\n", "scalar"),
        ("vendor : none\n", "scalar"),
    ],
)
def test_the_widest_vector_unit_is_named(
    tmp_path: Path, text: str, widest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    machine, unit, digest = toolchain.cpu_identity(cpuinfo(tmp_path, text)).split(" ")
    assert (machine, unit) == (os.uname().machine, widest)
    assert len(digest) == 13


def test_any_missing_feature_is_another_cpu(tmp_path: Path) -> None:
    whole = toolchain.cpu_identity(cpuinfo(tmp_path, "flags : fpu avx2 bmi2\n"))
    toolchain._cpu_features.cache_clear()
    assert toolchain.cpu_identity(cpuinfo(tmp_path, "flags : fpu avx2\n")) != whole


def test_the_order_of_features_and_other_cpus_do_not_matter(tmp_path: Path) -> None:
    one = toolchain.cpu_identity(cpuinfo(tmp_path, "processor: 0\nflags : fpu avx2\nprocessor: 1\nflags : fpu avx2\n"))
    toolchain._cpu_features.cache_clear()
    assert toolchain.cpu_identity(cpuinfo(tmp_path, "processor: 0\nbogomips: 7\nflags : avx2 fpu\n")) == one


def test_a_machine_without_cpuinfo_has_an_identity_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    assert " scalar #" in toolchain.cpu_identity(str(tmp_path / "absent"))


def test_a_vector_unit_chosen_by_hand_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = cpuinfo(tmp_path, "flags : avx512f\n")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert " avx2 #" in toolchain.cpu_identity(text)
