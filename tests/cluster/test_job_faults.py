"""Real ranks on three nodes, while all that they wait for dies in turn, at each stage of a compile: each ends on plain
Inductor's losses. One test, since a cluster and ranks are dear to start."""

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from support.cluster import CONNECTED_S, RayCluster, bridge_of, ray_daemon, until_connected
from support.daemon import DaemonProcess
from support.gates import Gates
from support.jobs import Rank, Tiny, recorded, under_torchrun
from support.needs import needs_module
from support.pools import script
from support.rank import key_of, rank
from support.scrape import nonzero, page, samples, value
from support.training import python
from workers.scripted import artifact_of

from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import ClusterStatus, RunningCompile

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1800)]

NODES = 2
RANKS = 2
# What a rank may wait; no rank does, or it would say so.
BOUND_S = "900"
# What keeps the cluster's only worker from the job's first graph.
BLOCKER = script(["size", 64])


@pytest.fixture
def nodes_of_workers(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    needs_module("ray")
    # What is smaller Ray hands on itself, and then it does not die with its node.
    monkeypatch.setenv("RAY_max_direct_call_object_size", "10000")
    cluster = RayCluster(workers=3, cpus=1)
    yield cluster
    cluster.close()


class Node:
    """A daemon, and what it says of its ranks and of the cluster."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon

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

    def metric(self, name: str, **labels: str) -> float:
        return value(samples(page(self.daemon)), f"inductord_{name}", **labels)


class JobNode(Node):
    """With ranks under torchrun."""

    def __init__(self, tiny: Tiny, folder: Path, daemon: DaemonProcess) -> None:
        super().__init__(daemon)
        self.job = under_torchrun(tiny, folder, daemon.address, RANKS, restarts=1, INDUCTORD_MAX_WAIT=BOUND_S)

    def rank(self, number: int) -> psutil.Process:
        children = psutil.Process(self.job.process.pid).children()
        (found,) = (child for child in children if child.environ().get("RANK") == str(number))
        return found


async def ask(address: str, toolchain: pb.Toolchain) -> bytes:
    """For the blocker, of the workers that are the ranks'."""
    async with rank(address) as one:
        return (await one.compile(BLOCKER, toolchain=toolchain)).artifact


def test_a_job_outlives_all_that_dies_at_each_stage_of_its_compiles(
    tiny: Tiny, gates: Gates, nodes_of_workers: RayCluster, tmp_path: Path
) -> None:
    cluster, blocker = nodes_of_workers, key_of(BLOCKER)
    forward, backward = tiny.keys
    settings = {name: content for name, content in recorded(tiny).items() if name != "environment"}
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(1))

        def daemon(name: str) -> DaemonProcess:
            one = stack.enter_context(ray_daemon(tmp_path / name, cluster.address, **settings, max_workers=1))
            until_connected(one)
            return one

        def single_rank(name: str, script: str, **more: str) -> Rank:
            more = {"INDUCTORD_MAX_WAIT": BOUND_S, **more}
            number = int(name == "follower")
            one = Rank(tiny, tmp_path / name, dying.daemon.address, number, 2, python(script), **more)
            stack.callback(one.close)
            return one

        # Uploading: a rank that never ends its upload leads, and another joins it.
        beside, dying = Node(daemon("beside")), Node(daemon("dying"))
        blocked = threads.submit(lambda: asyncio.run(ask(beside.daemon.address, tiny.toolchain)))
        gates.worker(blocker)
        stuck = tmp_path / "stuck"
        leader = single_rank("leader", "stuck_upload.py", STUCK=str(stuck))
        leader.until(stuck.exists, "the leader is asked for the graph")
        follower = single_rank("follower", "tiny.py")
        follower.until(lambda: dying.compile.waiters == 2, "the other rank joined")
        assert dying.compile.state == pb.COMPILE_STATE_UPLOADING
        cluster.registry().kill()
        gates.worker(blocker)
        follower.until(lambda: dying.metric("cluster_reattached_total") == 1, "the daemon has found the new registry")
        leader.kill()
        follower.until(lambda: dying.compile.state == pb.COMPILE_STATE_QUEUED, "the other rank gave the graph")

        # Queued: behind the blocker, which has the only worker.
        nodes = [JobNode(tiny, tmp_path / f"job{number}", daemon(f"{number}")) for number in range(NODES)]
        for node in nodes:
            stack.callback(node.job.close)
        job = nodes[0].job

        def all_wait(beside_them: int = 0) -> bool:
            waiting = [node.compile.waiters for node in nodes]
            return waiting == [RANKS] * NODES and nodes[0].cluster.waiting >= NODES + beside_them

        def until_all_wait(beside_them: int = 0) -> None:
            job.until(lambda: all_wait(beside_them), "all ranks wait")

        until_all_wait(2)
        dying.daemon.kill()
        job.until(lambda: beside.cluster.silent_daemons == 1, "its silence is noticed")
        assert follower.trained().fallbacks == {"daemon_lost": 1, "daemon_absent": 1}
        before = beside.cluster.registry
        cluster.registry().kill()
        job.until(lambda: [node.metric("cluster_reattached_total") for node in nodes] == [1] * NODES, "all ask again")
        gates.open(blocker)

        # Compiling.
        worker = gates.worker(forward, job)
        until_all_wait()

        def blocker_is_next() -> bool:
            pool = beside.daemon.status().pool
            return blocked.done() or (pool.cluster.registry not in ("", before) and pool.queued == 1)

        # Daemons ask again in any order. It is done, or comes before another try of the forward graph.
        job.until(blocker_is_next, "the blocker is out of the way")
        worker.kill()
        gates.worker(forward, job)
        assert blocked.result(CONNECTED_S) == artifact_of(BLOCKER)
        job.until(lambda: nodes[0].cluster.retries == 1, "it is compiled once more")
        assert nodes[0].metric("cluster_worker_failures_total", reason="died") == 1
        assert nodes[0].metric("cluster_retries_total") == 1
        cluster.registry().kill()
        worker = gates.worker(forward, job)
        cluster.kill_node(cluster.node_of(worker.pid))
        worker = gates.worker(forward, job)
        job.until(lambda: nodes[0].cluster.retries == 1, "it is compiled once more, says the new registry")
        assert [node.metric("cluster_reattached_total") for node in nodes] == [2] * NODES
        until_all_wait()

        # Published, and nobody has read it.
        with contextlib.ExitStack() as frozen:
            for bridge in [bridge_of(node.daemon) for node in nodes]:
                bridge.suspend()
                frozen.callback(bridge.resume)
            gates.open(forward)
            job.until(lambda: beside.cluster.kept_artifacts == 1, "it is published")
            cluster.kill_node(cluster.node_of(worker.pid))
        job.until(lambda: beside.metric("cluster_lost_artifacts_total") == 1, "its loss is counted")

        # The rank that gave the backward graph, while a worker has it. It is started again, and asks for both graphs.
        gates.worker(backward, job)
        until_all_wait()
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
            assert [each["losses"] for each in ended.results] == [tiny.losses] * RANKS
        # The newest registry saw the forward graph begun, begun again without its node, and again without its artifact.
        seen = other.cluster
        assert (seen.compiles, seen.retries, seen.lost_artifacts) == (4, 1, 1)
        # No node compiled by itself.
        assert "moved" not in nonzero(other.daemon, "inductord_ray_jobs_total")
