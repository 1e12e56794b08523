"""A daemon that is killed leaves no process behind, whatever its workers were doing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.pools import alive, compile_, local_pool, script, until

from inductord.worker.pool import Compiled

pytestmark = pytest.mark.chaos
TESTS = Path(__file__).parent.parent


@pytest.fixture
def hosts() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes to end after the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for host in started:
        host.kill()
        host.wait(30)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([["wait_for", "/never"]], id="waiting"),
        pytest.param([["spin"]], id="spinning"),
        pytest.param([], id="idle"),
    ],
)
async def test_nothing_outlives_a_daemon_killed_by_sigkill(
    tmp_path: Path, hosts: list[subprocess.Popen[bytes]], steps: list[list[Any]]
) -> None:
    child, begun, scratch = tmp_path / "child", tmp_path / "begun", tmp_path / "scratch"
    graph = script(["litter"], ["child", str(child)], ["touch", str(begun)], *steps)
    host = subprocess.Popen(
        [sys.executable, "-m", "support.pool_host", str(scratch), graph.decode()],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    hosts.append(host)
    await until(begun.exists, "the worker runs the script")
    below = psutil.Process(host.pid).children(recursive=True)
    assert {int(child.read_text()), int(begun.read_text())} <= {process.pid for process in below}

    host.send_signal(signal.SIGKILL)
    host.wait(30)
    await until(lambda: not any(alive(process.pid) for process in below), "supervisor, worker and child are gone")

    # The next daemon clears away what the killed one left on disk.
    assert list(scratch.glob("pool-*"))
    async with local_pool(scratch) as pool:
        assert isinstance(await compile_(pool), Compiled)
