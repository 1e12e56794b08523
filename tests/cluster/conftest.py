"""One Ray cluster for all tests of a module, and daemons that use it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import RayCluster, ray_daemon, until_connected
from support.daemon import DaemonProcess
from support.gates import Gates
from support.jobs import Tiny, recorded
from support.needs import needs_module

DAEMONS = 3


@pytest.fixture(scope="module")
def worker_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where workers of the cluster, and of nodes, write each job that they begin."""
    path = tmp_path_factory.mktemp("log") / "workers.jsonl"
    os.environ["SCRIPTED_LOG"] = str(path)
    yield path
    del os.environ["SCRIPTED_LOG"]


@pytest.fixture
def gates(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    """Of the job's graphs, in clusters that are started after this."""
    gates = Gates(tmp_path / "gates")
    # Nodes of a cluster pass these on to workers.
    for name, content in recorded(tiny, **gates.faults)["environment"].items():
        monkeypatch.setenv(name, content)
    return gates


@pytest.fixture(scope="module")
def cluster(worker_log: Path) -> Iterator[RayCluster]:
    """A head without CPUs, and two nodes."""
    needs_module("ray")
    started = RayCluster(workers=2, cpus=2)
    yield started
    started.close()


@pytest.fixture(scope="module")
def daemons(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[DaemonProcess]]:
    """Daemons that are nodes of the cluster."""
    with contextlib.ExitStack() as stack:
        folder = tmp_path_factory.mktemp("daemons")
        started = [
            stack.enter_context(
                ray_daemon(folder / f"{number}", cluster.address, max_workers=4, ray_labels="accelerator")
            )
            for number in range(DAEMONS)
        ]
        for daemon in started:
            until_connected(daemon)
        yield started
