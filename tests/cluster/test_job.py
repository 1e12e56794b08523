"""Real ranks under torchrun on two nodes, and a real worker in the cluster: the second node compiles nothing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import RayCluster, ray_daemon, until_connected
from support.needs import needs_module
from support.training import NO_GRAPH_CACHE, torchrun, train

pytestmark = [pytest.mark.cluster, pytest.mark.integration, pytest.mark.timeout(1800)]

GRAPHS = 2


@pytest.fixture
def one_node() -> Iterator[RayCluster]:
    needs_module("ray")
    cluster = RayCluster(workers=1, cpus=2)
    yield cluster
    cluster.close()


def test_what_one_node_had_compiled_the_other_gets(one_node: RayCluster, tmp_path: Path) -> None:
    command = torchrun(1, "tiny.py")
    plain = train(tmp_path / "plain", command, None, **NO_GRAPH_CACHE)
    settings = {"max_workers": 1, "worker_command": f"{sys.executable} -m inductord.worker", "heartbeat_seconds": 2}
    address = one_node.address
    with (
        ray_daemon(tmp_path / "one", address, **settings) as one,
        ray_daemon(tmp_path / "other", address, **settings) as other,
    ):
        for daemon, led, compiles in ((one, GRAPHS, GRAPHS), (other, 0, 0)):
            until_connected(daemon)
            ended = train(tmp_path / daemon.folder.name / "job", command, daemon.address, **NO_GRAPH_CACHE)
            assert ended.result == plain.result
            assert (ended.fallbacks, ended.count("led"), ended.count("joined")) == ({}, led, GRAPHS - led), ended.err
            assert daemon.status().totals.compiles == compiles
        assert other.status().pool.cluster.compiles == GRAPHS
