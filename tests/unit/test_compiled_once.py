"""The script that stands before the compiler in tests: it may never hand out what another program or other arguments made."""

import os
import subprocess
from pathlib import Path

import pytest
from support.compiler import remember_compiles

pytestmark = pytest.mark.unit

# Writes what it was asked for, and takes a program that says so as a mistake.
_COMPILER = """#!/bin/bash
echo "$@" >> {calls}
for argument in "$@"; do [[ ${{last:-}} == -o ]] && output=$argument; last=$argument; done
grep -q mistake "$1" && echo "$1: mistake" >&2 && exit 3
{{ cat "$1"; echo "${{@:2}}" | sed 's/-o [^ ]*//'; }} > "$output"
"""


class Bench:
    """A folder with programs, and a compiler that counts its calls behind the script."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._calls = folder, folder / "calls"
        (folder / "real").mkdir()
        self._calls.touch()
        compiler = folder / "real" / "g++"
        compiler.write_text(_COMPILER.format(calls=self._calls))
        compiler.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder / 'real'}:{os.environ['PATH']}")
        remember_compiles(folder / "cxx")

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines())

    def write(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def compile(self, source: Path, *more: str, suffix: str = ".so") -> "subprocess.CompletedProcess[str]":
        command = ["g++", source, *more, "-o", source.with_suffix(suffix)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_the_same_program_elsewhere_is_compiled_once(bench: Bench) -> None:
    sources = [bench.write(f"{folder}/k.cpp", "int f();") for folder in ("a", "b")]
    assert [bench.compile(source, "-O3").returncode for source in sources] == [0, 0]
    assert bench.calls == 1
    made = [source.with_suffix(".so") for source in sources]
    assert made[0].read_text() == made[1].read_text()
    assert made[0].read_text().startswith("int f();-O1 "), "what is tested needs no more"
    assert not made[0].samefile(made[1])


def test_a_precompiled_header_is_one_file(bench: Bench) -> None:
    headers = [bench.write(f"{folder}/h.h", "int h();") for folder in ("a", "b")]
    assert [bench.compile(header, suffix=".h.gch").returncode for header in headers] == [0, 0]
    assert bench.calls == 1
    assert headers[0].with_suffix(".h.gch").samefile(headers[1].with_suffix(".h.gch"))


def test_another_program_or_argument_or_header_is_compiled(bench: Bench) -> None:
    source, header = bench.write("a/k.cpp", "int f();"), bench.write("a/h.h", "int h();")
    assert bench.compile(source, "-O3", "-include", str(header)).returncode == 0
    assert bench.compile(source, "-O2", "-include", str(header)).returncode == 0
    bench.write("a/h.h", "int i();")
    assert bench.compile(source, "-O2", "-include", str(header)).returncode == 0
    bench.write("a/k.cpp", "int g();")
    assert bench.compile(source, "-O2", "-include", str(header)).returncode == 0
    assert bench.calls == 4
    assert source.with_suffix(".so").read_text().startswith("int g();-O2")


def test_a_mistake_is_told_each_time(bench: Bench) -> None:
    source = bench.write("a/k.cpp", "mistake")
    for calls in (1, 2):
        ended = bench.compile(source)
        assert (ended.returncode, ended.stderr, bench.calls) == (3, f"{source}: mistake\n", calls)


def test_other_calls_are_the_compiler_s(bench: Bench) -> None:
    for calls in (1, 2):
        subprocess.run(["g++", "--version"], capture_output=True, check=False)
        assert bench.calls == calls
