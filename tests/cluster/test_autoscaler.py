"""Demand makes Ray's autoscaler add nodes, and the end of it lets them go. Nodes are those of Ray's fake provider."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.cluster import ray_daemon, set_variables, until_connected
from support.daemon import wait_until
from support.needs import needs, needs_module
from support.pools import command_line, script
from support.rank import rank

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

# Ray's fake provider connects its nodes to no other.
_PORT = 6379
_ALL_ON_ONE_MACHINE = {"use_node_id_as_ip": True, "disable_node_updaters": True, "disable_launch_config_check": True}
_NO_COMMANDS = (
    *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
    *("head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude", "rsync_filter"),
)
GRAPHS = 200
MOST_NODES = 2


class Autoscaling:
    """A cluster whose head has no CPU and starts nodes of two CPUs when there is demand."""

    def __init__(self) -> None:
        set_variables()
        self.folder = Path(tempfile.mkdtemp(prefix="ind-ray-", dir="/tmp"))
        config = {
            "cluster_name": "fake",
            "provider": {"type": "fake_multinode", **_ALL_ON_ONE_MACHINE},
            "head_node_type": "ray.head.default",
            **{name: [] for name in _NO_COMMANDS},
            "auth": {},
            "docker": {},
            "file_mounts": {},
            "file_mounts_sync_continuously": False,
            "upscaling_speed": 1.0,
            "max_workers": MOST_NODES,
            "idle_timeout_minutes": 0.05,
            "available_node_types": {
                "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
                "cpu": {"resources": {"CPU": 2}, "node_config": {}, "min_workers": 0, "max_workers": MOST_NODES},
            },
        }
        path = self.folder / "autoscaler.json"
        path.write_text(json.dumps(config))
        self._head = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=0"),
                *(f"--autoscaling-config={path}", f"--temp-dir={self.folder}", f"--port={_PORT}"),
                *("--include-dashboard=false", "--object-store-memory=104857600"),
            ],
            env={**os.environ, "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self._address() != "", "the head has a port")
        self.address = self._address()

    def _address(self) -> str:
        for process in self._below():
            for argument in command_line(process):
                if argument.startswith("--gcs-address="):
                    return argument.partition("=")[2]
        return ""

    def _below(self) -> list[psutil.Process]:
        return psutil.Process(self._head.pid).children(recursive=True)

    def nodes(self) -> int:
        """Nodes beside the head."""
        raylets = 0
        for process in self._below():
            try:
                raylets += process.name() == "raylet"
            except psutil.NoSuchProcess:
                continue  # it left meanwhile
        return raylets - 1

    def close(self) -> None:
        """End the head and all nodes."""
        processes = self._below()
        for process in (psutil.Process(self._head.pid), *processes):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue  # its parent ended it
        self._head.wait(30)
        psutil.wait_procs(processes, timeout=30)
        shutil.rmtree(self.folder)


@pytest.fixture
def autoscaling() -> Iterator[Autoscaling]:
    needs_module("ray")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", _PORT))
        except OSError:
            needs(False, f"port {_PORT}, the only one that Ray's fake provider knows")
    cluster = Autoscaling()
    yield cluster
    cluster.close()


def test_a_burst_grows_the_cluster_and_its_end_shrinks_it(autoscaling: Autoscaling, tmp_path: Path) -> None:
    settings = {"max_workers": 8, "ray_min_warm": 0, "idle_seconds": 3}
    with ray_daemon(tmp_path, autoscaling.address, **settings) as daemon:
        until_connected(daemon)
        assert autoscaling.nodes() == 0
        most = 0

        async def burst() -> int:
            nonlocal most
            async with rank(daemon.address) as one:
                answers = asyncio.gather(*(one.compile(script(["sleep", 0.1], ["size", n + 1])) for n in range(GRAPHS)))
                while not answers.done():
                    most = max(most, autoscaling.nodes())
                    await asyncio.wait({answers}, timeout=0.5)
                return sum(bool(answer.artifact) for answer in await answers)

        assert asyncio.run(burst()) == GRAPHS
        assert most == MOST_NODES
        wait_until(lambda: daemon.status().pool.cluster.compiles == GRAPHS, "each was compiled once, on Ray")
        wait_until(lambda: autoscaling.nodes() == 0, "all nodes are let go")
