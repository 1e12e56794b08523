"""A rank on a machine without a C++ compiler, and what its caches are worth afterwards."""

import shlex
import shutil
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.needs import needs_program
from support.training import python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

GRAPHS = 3


def listening_compiler(folder: Path) -> tuple[str, Path]:
    """A PATH on which each call of g++ is written down before it is done, and the file it is written to."""
    needs_program("g++", "g++")
    calls, program = folder / "calls", folder / "bin" / "g++"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {shlex.quote(str(calls))}\nexec {shlex.quote(str(shutil.which("g++")))} "$@"\n'
    )
    program.chmod(0o755)
    calls.touch()
    return f"{program.parent}:/usr/bin:/bin", calls


def libraries(cache: Path) -> dict[str, int]:
    """Kernel libraries where Inductor builds them, with their times of change in nanoseconds."""
    return {str(path): path.stat().st_mtime_ns for path in cache.glob("*/*.main.so")}


def test_a_rank_needs_no_compiler_and_its_caches_need_none(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    command = python("mlp.py", "--width", "25")
    address = real_daemon.address
    path, calls = listening_compiler(tmp_path)
    nowhere = str(tmp_path / "no-such-folder")

    # What nobody compiled yet the pool compiles.
    first = train(tmp_path / "first", command, address, PATH=nowhere)
    assert (first.fallbacks, first.count("led")) == ({}, GRAPHS), first.err
    compiles = real_daemon.status().totals.compiles

    # A rank without a compiler takes the identity of the daemon's, so its keys are those of everybody else.
    second = train(tmp_path / "second", command, address)
    assert second.result == first.result
    assert (second.fallbacks, second.count("hits"), second.keys) == ({}, GRAPHS, first.keys), second.err

    bare = tmp_path / "bare"
    third = train(bare, command, address, PATH=nowhere)
    assert third.result == first.result
    assert (third.fallbacks, third.count("requests"), third.count("hits")) == ({}, GRAPHS, GRAPHS), third.err

    # Now Inductor's own cache of graphs answers. It keeps no libraries, and must find those that came with the artifacts.
    fourth = train(bare, command, address, PATH=nowhere)
    assert fourth.result == first.result
    assert (fourth.fallbacks, fourth.count("requests")) == ({}, 0), fourth.err
    assert real_daemon.status().totals.compiles == compiles

    # So does a job that knows nothing of inductord. It may ask the compiler what it can, but builds no kernel.
    before = libraries(bare / "inductor")
    fifth = train(bare, command, None, PATH=path)
    assert fifth.result == first.result
    assert [call for call in calls.read_text().splitlines() if ".main." in call] == []
    assert libraries(bare / "inductor") == before != {}
