"""The doors for callers of AOTAutograd: each entry point gives bitwise what Inductor's own compile of its graphs gives."""

from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.training import NO_GRAPH_CACHE, Running, environment, python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

TRAINING = {"fw": 1, "bw": 1}
CALLS = {
    "aot_function": TRAINING,
    "aot_function, min-cut": TRAINING,
    "aot_module": TRAINING,
    "aot_module_simplified": TRAINING,
    "aot_export_module": {"inference": 1},
    "aot_export_joint_simple": {"inference": 2},
    "backend": TRAINING | {"inference": 1},
    "backend, min-cut": TRAINING | {"inference": 1},
    "backend without fake tensors": TRAINING | {"inference": 1},
    "backend, dynamic": TRAINING,
    "backend, nested inputs": TRAINING,
}
GRAPHS = sum(sum(calls.values()) for calls in CALLS.values())
TWICE = 1
"""Graphs that are compiled twice: that of aot_export_joint_simple."""


def test_each_entry_point_of_aotautograd(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    plain = Running(python("doors.py"), environment(tmp_path / "plain", None, **NO_GRAPH_CACHE))
    before = real_daemon.status().totals.compiles
    # Nothing but the compilers asks for inductord: what Inductor compiles otherwise in this process stays here.
    ended = train(
        tmp_path / "rank", python("doors.py", "--inductord"), real_daemon.address, INDUCTORD=None, **NO_GRAPH_CACHE
    )
    expected = plain.finish()
    assert ended.result == expected.result
    assert {name: found["calls"] for name, found in ended.result.items()} == CALLS
    assert (ended.fallbacks, ended.count("requests"), len(ended.keys)) == ({}, GRAPHS, GRAPHS - TWICE), ended.err
    assert ended.count("led") == real_daemon.status().totals.compiles - before == GRAPHS - TWICE
    assert (expected.count("requests"), expected.fallbacks) == (0, {})
