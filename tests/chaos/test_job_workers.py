"""Jobs whose workers die, hang, grow, answer nonsense or are of another kind; and graphs that nobody can compile."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from support import training
from support.daemon import DaemonProcess
from support.jobs import GRAPHS, Rank, Tiny, fault, really_compiling, recorded
from support.scrape import nonzero

from inductord.compiler.payload import Artifact, pack_artifact

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

StartDaemon = Callable[..., DaemonProcess]
StartRank = Callable[..., Rank]


def test_killed_in_mid_compile(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path) -> None:
    pid, never = tmp_path / "pid", tmp_path / "never"
    once = fault(tmp_path / "faults", 1, ["touch", str(pid)], ["wait_for", str(never)])
    daemon = start_daemon(**really_compiling(tiny, **once))
    rank = start_rank(daemon.address)
    rank.until(pid.exists, "a worker has the graph")
    os.kill(int(pid.read_text()), signal.SIGKILL)
    ended = rank.trained()
    assert (ended.fallbacks, ended.count("led")) == ({}, GRAPHS)
    assert nonzero(daemon, "inductord_worker_failures_total") == {"died": 1}
    assert daemon.status().totals.compiles == GRAPHS + 1


class GivenUp(NamedTuple):
    """A fault of the first graph's compile. ``tries``: how often it is met; the other two: how rank and pool count it."""

    steps: list[list[Any]]
    tries: int
    settings: dict[str, Any]
    reason: str
    failure: str


GIVEN_UP = (
    GivenUp([["die"]], 2, {}, "worker_died", "died"),
    GivenUp([["allocate", 400 << 20], ["spin"]], 2, {"worker_memory_bytes": 300 << 20}, "worker_out_of_memory", "oom"),
    GivenUp([["spin"]], 1, {"compile_timeout": 3.0}, "compile_timeout", "timeout"),
)


def test_given_up(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path) -> None:
    daemons = [
        start_daemon(**recorded(tiny, **fault(tmp_path / case.reason, case.tries, *case.steps)), **case.settings)
        for case in GIVEN_UP
    ]
    ranks = [start_rank(daemon.address) for daemon in daemons]
    for case, daemon, rank in zip(GIVEN_UP, daemons, ranks, strict=True):
        ended = rank.trained()
        # The pool goes on: the second graph comes from it.
        assert (ended.fallbacks, ended.count("led")) == ({case.reason: 1}, 1)
        assert nonzero(daemon, "inductord_worker_failures_total") == {case.failure: case.tries}
        assert nonzero(daemon, "inductord_fallback_total") == {case.reason: 1}
        assert nonzero(daemon, "inductord_compile_requests_total") == {"failed": 1, "led": 1}
        assert daemon.status().totals.compiles == case.tries + 1


def test_artifacts_that_are_none(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path) -> None:
    forward, backward = tiny.keys
    (tmp_path / forward).write_bytes(b"\xff" * 1000)
    (tmp_path / backward).write_bytes(pack_artifact(Artifact(backward, b"no pickle", {})))
    daemon = start_daemon(**recorded(tiny, RECORDED=str(tmp_path)))
    ended = start_rank(daemon.address).trained()
    assert ended.fallbacks == {"artifact_corrupt": 1, "install_failed": 1}
    assert nonzero(daemon, "inductord_fallback_total") == ended.fallbacks


def test_of_another_torch(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank) -> None:
    daemon = start_daemon(**really_compiling(tiny, WORKER_TORCH="2.11.99"))
    ended = start_rank(daemon.address).trained()
    assert ended.fallbacks == {"key_mismatch": GRAPHS}
    assert f"torch: sent '{torch.__version__}', here '2.11.99'" in ended.err
    assert nonzero(daemon, "inductord_fallback_total") == {"key_mismatch": GRAPHS}
    assert daemon.status().store.entries == 0


def test_a_graph_that_nobody_can_compile(real_daemon: DaemonProcess, tiny: Tiny, tmp_path: Path) -> None:
    # PyTorch's own way to make a C++ compile fail. The folders are the same each time, since messages name files in them;
    # that of temporary files holds a precompiled header.
    command = training.python("tiny.py", "--options", '{"cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}')
    before = nonzero(real_daemon, "inductord_fallback_total").get("compile_failed", 0)
    compiles = real_daemon.status().totals.compiles
    plain, first, second = (
        training.train(tmp_path, command, address, TMPDIR=str(tiny.cache.parent / "tmp"), **training.NO_GRAPH_CACHE)
        for address in (None, real_daemon.address, real_daemon.address)
    )
    assert "CppCompileError" in plain.err
    for through in (first, second):
        assert through.code == plain.code == 1
        assert _error(through.err) == _error(plain.err)
        assert through.err.count("CppCompileError") == plain.err.count("CppCompileError")
        assert through.fallbacks == {"compile_failed": 1}
    # The second job is told what the first made known.
    assert real_daemon.status().totals.compiles == compiles + 1
    assert nonzero(real_daemon, "inductord_fallback_total")["compile_failed"] == before + 2


def _error(output: str) -> str:
    """The exception that ended a script, with its whole message."""
    return output[output.rindex("\ntorch._inductor.exc") :]
