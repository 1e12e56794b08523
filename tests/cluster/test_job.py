"""Real ranks under torchrun on three nodes, and a real worker in the cluster: one compile of each graph for all of them; and
the right losses when the cluster goes away while it compiles. A real Prometheus scrapes the daemons and Ray, and every
expression of the dashboard of Ray is run on it."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import RayCluster, ray_daemon, until_connected
from support.daemon import wait_until
from support.needs import needs_module
from support.prometheus import running_prometheus
from support.scrape import nonzero
from support.training import NO_GRAPH_CACHE, Running, environment, python, torchrun

pytestmark = [pytest.mark.cluster, pytest.mark.integration, pytest.mark.timeout(1800)]

DAEMONS = 3
RANKS = 4
GRAPHS = 2
# What the documentation lists as empty on a cluster that is well.
EMPTY = {"Worker failures"}


@pytest.fixture
def one_node() -> Iterator[RayCluster]:
    needs_module("ray")
    cluster = RayCluster(workers=1, cpus=2, head_arguments={"include_dashboard": True, "dashboard_port": 0})
    yield cluster
    cluster.close()


def test_three_nodes_of_four_ranks_compile_each_graph_once_and_train_on_without_the_head(
    one_node: RayCluster, tmp_path: Path
) -> None:
    settings = {"max_workers": 1, "worker_command": f"{sys.executable} -m inductord.worker", "heartbeat_seconds": 2}
    with contextlib.ExitStack() as stack:

        def run(name: str, command: list[str], address: str | None) -> Running:
            job = Running(command, environment(tmp_path / name, address, **NO_GRAPH_CACHE))
            stack.callback(job.process.kill)
            return job

        daemons = [
            stack.enter_context(ray_daemon(tmp_path / f"{number}", one_node.address, **settings))
            for number in range(DAEMONS)
        ]
        targets = [daemon.status().metrics_address for daemon in daemons]
        prometheus = stack.enter_context(running_prometheus(tmp_path / "prometheus", *targets, ray=one_node.scraped))
        jobs = []
        for daemon in daemons:
            until_connected(daemon)
            jobs.append(run(f"{daemon.folder.name}/job", torchrun(RANKS, "tiny.py"), daemon.address))
        right = run("plain", python("tiny.py"), None).finish().result
        ended = [job.finish() for job in jobs]
        for job in ended:
            assert (job.code, job.fallbacks) == (0, {}), job.err
            assert job.results == [right] * RANKS
        # Each rank asked for each graph; of all of them one led it, and a worker began it once.
        keys = {key for job in ended for key in job.keys}
        assert len(keys) == GRAPHS
        assert sum(job.count("requests") for job in ended) == DAEMONS * RANKS * GRAPHS
        assert sum(daemon.status().totals.compiles for daemon in daemons) == GRAPHS
        assert daemons[0].status().pool.cluster.compiles == GRAPHS

        # Ray's agents tell what happened every few seconds.
        wait_until(lambda: prometheus.empty_panels(["inductord-ray"]) == EMPTY, "each panel has data")
        workers = 'sum(ray_actors{Source="gcs",Name="CompileActor",State="ALIVE"})'
        wait_until(lambda: prometheus.values(workers) == [1], "Ray's count is that of the worker")
        assert prometheus.values('sum(inductord_pool_serving{pool="ray"})') == [DAEMONS]

        # The head goes away while a worker has a graph: each node's own pool compiles it.
        before = daemons[0].status().pool.cluster.compiles
        other = python("mlp.py", "--width", "23")
        job = run("headless", other, daemons[0].address)
        wait_until(lambda: daemons[0].status().pool.cluster.compiles > before, "a worker of the cluster has a graph")
        one_node.kill_head()
        headless = job.finish()
        assert headless.result == run("other", other, None).finish().result
        assert headless.fallbacks == {}, headless.err
        assert "moved" in nonzero(daemons[0], "inductord_ray_jobs_total")
