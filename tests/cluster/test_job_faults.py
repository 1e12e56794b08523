"""Real ranks under torchrun on two nodes, while all that they wait for dies in turn: each ends on plain Inductor's losses."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.cluster import RayCluster, ray_daemon, until_connected
from support.daemon import DaemonProcess
from support.jobs import Tiny, fault, recorded
from support.needs import needs_module
from support.scrape import nonzero, page, samples, value
from support.training import NO_GRAPH_CACHE, Running, environment, torchrun

from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import ClusterStatus, RunningCompile

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1200)]

DAEMONS = 2
RANKS = 2
# What a rank may wait; no rank does, or it would say so.
BOUND_S = "900"


class Gates:
    """Each graph is held by the worker that has it until it is let go; it tells its pid."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def faults(self) -> dict[str, str]:
        """Variables for workers."""
        steps = (["touch", f"{self._folder}/{{key}}.pid"], ["wait_for", f"{self._folder}/{{key}}.go"])
        return fault(self._folder, 100, *steps)

    def worker(self, job: Running, key: str) -> psutil.Process:
        """The one that has the graph, once one has. The next call finds the next one."""
        pid = self._folder / f"{key}.pid"
        job.until(pid.exists, f"a worker has {key}")
        found = psutil.Process(int(pid.read_text()))
        pid.unlink()
        return found

    def open(self, key: str) -> None:
        """Let the graph be finished."""
        (self._folder / f"{key}.go").touch()


@pytest.fixture
def gates(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    gates = Gates(tmp_path / "gates")
    # Nodes of the cluster pass these on to workers.
    for name, content in recorded(tiny, **gates.faults)["environment"].items():
        monkeypatch.setenv(name, content)
    return gates


@pytest.fixture
def two_nodes(gates: Gates) -> Iterator[RayCluster]:
    needs_module("ray")
    cluster = RayCluster(workers=2, cpus=1)
    yield cluster
    cluster.close()


class Node:
    """A daemon, and the ranks of its node."""

    def __init__(self, tiny: Tiny, folder: Path, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        env = environment(folder, daemon.address, INDUCTORD_MAX_WAIT=BOUND_S, **NO_GRAPH_CACHE)
        shutil.copytree(tiny.cache, env["TORCHINDUCTOR_CACHE_DIR"], dirs_exist_ok=True)
        self.job = Running(torchrun(RANKS, "tiny.py", restarts=1), env)

    @property
    def cluster(self) -> ClusterStatus:
        return self.daemon.status().pool.cluster

    @property
    def compile(self) -> RunningCompile:
        """The graph that the ranks wait for; an empty one while they wait for none."""
        return next(iter(self.daemon.status().compiles), RunningCompile())

    @property
    def leads(self) -> bool:
        """Whether the cluster compiles in the name of this daemon."""
        return self.compile.state == pb.COMPILE_STATE_COMPILING

    def rank(self, number: int) -> psutil.Process:
        children = psutil.Process(self.job.process.pid).children()
        (found,) = (child for child in children if child.environ().get("RANK") == str(number))
        return found

    def metric(self, name: str, **labels: str) -> float:
        return value(samples(page(self.daemon)), f"inductord_{name}", **labels)


def test_a_job_outlives_a_worker_the_registry_a_node_its_leading_rank_and_its_daemon(
    tiny: Tiny, gates: Gates, two_nodes: RayCluster, tmp_path: Path
) -> None:
    forward, backward = tiny.keys
    settings = {name: content for name, content in recorded(tiny).items() if name != "environment"}
    with contextlib.ExitStack() as stack:
        nodes = []
        for number in range(DAEMONS):
            folder = tmp_path / f"{number}"
            daemon = stack.enter_context(ray_daemon(folder, two_nodes.address, **settings, max_workers=1))
            until_connected(daemon)
            nodes.append(Node(tiny, folder / "job", daemon))
            stack.callback(nodes[-1].job.close)
        job = nodes[0].job

        def all_wait() -> bool:
            return [node.compile.waiters for node in nodes] == [RANKS] * DAEMONS and nodes[0].cluster.waiting == DAEMONS

        # A worker that has the forward graph.
        worker = gates.worker(job, forward)
        job.until(all_wait, "all ranks wait for the forward graph")
        worker.kill()
        gates.worker(job, forward)
        job.until(lambda: nodes[0].cluster.retries == 1, "it is compiled once more")
        assert nodes[0].metric("cluster_worker_failures_total", reason="died") == 1
        assert nodes[0].metric("cluster_retries_total") == 1
        # The registry.
        two_nodes.registry().kill()
        worker = gates.worker(job, forward)
        # The node of the worker that has it now.
        two_nodes.kill_node(two_nodes.node_of(worker.pid))
        gates.worker(job, forward)
        job.until(lambda: nodes[0].cluster.retries == 1, "it is compiled once more, says the new registry")
        assert [node.metric("cluster_reattached_total") for node in nodes] == [1] * DAEMONS
        job.until(all_wait, "all ranks still wait for the forward graph")
        gates.open(forward)

        # The rank that gave the backward graph, while a worker has it. It is started again, and asks for both graphs.
        gates.worker(job, backward)
        job.until(all_wait, "all ranks wait for the backward graph")
        job.until(lambda: [node.leads for node in nodes].count(True) == 1, "one daemon leads")
        leading, other = sorted(nodes, key=lambda node: not node.leads)
        leading.rank(leading.compile.waiting_ranks[0]).kill()
        leading.job.until(
            lambda: leading.daemon.status().totals.hits == RANKS, "its ranks have the forward graph again"
        )
        leading.job.until(all_wait, "all ranks wait for the backward graph again")
        # The daemon of that rank.
        leading.daemon.kill()
        other.job.until(lambda: other.cluster.silent_daemons == 1, "its silence is noticed")
        assert other.metric("cluster_silent_daemons_total") == 1
        gates.open(backward)

        for node, fallbacks in ((leading, {"daemon_lost": RANKS}), (other, {})):
            ended = node.job.finish()
            assert (ended.code, ended.fallbacks) == (0, fallbacks), ended.err
            # Ranks print at once, and so may share a line.
            losses = [json.loads(line)["losses"] for line in ended.out.replace("}{", "}\n{").splitlines()]
            assert losses == [tiny.losses] * RANKS
        # The new registry saw the forward graph twice and the backward graph once. No node compiled by itself.
        seen = other.cluster
        assert (seen.compiles, seen.retries, seen.lost_artifacts) == (3, 1, 0)
        assert "moved" not in nonzero(other.daemon, "inductord_ray_jobs_total")
