"""Real ranks of several daemons, while all that they wait for dies in turn, at each stage of a compile: each ends on plain
Inductor's losses. One test, since a cluster and ranks are dear to start; the head dies last."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from support.cluster import CONNECTED_S, RayCluster, bridge_of, ray_daemon, until_connected
from support.daemon import DaemonProcess, wait_until
from support.gates import Gates
from support.jobs import GRAPHS, Rank, Tiny, recorded, under_torchrun
from support.needs import needs_module
from support.pools import script
from support.rank import key_of, rank
from support.scrape import nonzero, page, samples, value
from support.training import python
from workers.scripted import artifact_of

from inductord.daemon.client import AdminClient
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import ClusterStatus, RunningCompile

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1800)]

NODES = 2
RANKS = 2
# What a rank may wait; no rank does, or it would say so.
BOUND_S = "900"
# A rank that is silent when it is asked for a graph is given so long.
UPLOAD_S = 250.0
# What keeps the cluster's only worker from the job's first graph, one after the other.
BLOCKERS = [script(["size", 64 + number]) for number in range(3)]
# The same before the head dies, and what is compiled after that.
LAST, AFTERWARDS = script(["size", 100]), script(["size", 101])


@pytest.fixture
def nodes_of_workers(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    needs_module("ray")
    # What is smaller Ray hands on itself, and then it does not die with its node.
    monkeypatch.setenv("RAY_max_direct_call_object_size", "10000")
    cluster = RayCluster(workers=4, cpus=1)
    yield cluster
    cluster.close()


class Node:
    """A daemon, and what it says of its ranks and of the cluster."""

    def __init__(self, tiny: Tiny, daemon: DaemonProcess) -> None:
        self.tiny = tiny
        self.daemon = daemon

    @property
    def cluster(self) -> ClusterStatus:
        return self.daemon.status().pool.cluster

    @property
    def compile(self) -> RunningCompile:
        """The graph that the ranks wait for; an empty one while they wait for none."""
        of_ranks = (each for each in self.daemon.status().compiles if each.key in self.tiny.keys)
        return next(of_ranks, RunningCompile())

    @property
    def leads(self) -> bool:
        """Whether the cluster compiles in the name of this daemon."""
        return self.compile.state == pb.COMPILE_STATE_COMPILING

    def metric(self, name: str, **labels: str) -> float:
        return value(samples(page(self.daemon)), f"inductord_{name}", **labels)

    def until_lost(self, times: int) -> None:
        """Wait until it counts so many losses of Ray: its local pool serves some seconds before that."""
        wait_until(lambda: self.metric("ray_connections_total", event="lost") == times, f"{times} losses are counted")

    def forget(self) -> None:
        """What it has in its store."""
        with AdminClient(self.daemon.address) as owner:
            owner.collect(0)


class JobNode(Node):
    """With ranks under torchrun."""

    def __init__(self, tiny: Tiny, folder: Path, daemon: DaemonProcess) -> None:
        super().__init__(tiny, daemon)
        self.job = under_torchrun(tiny, folder, daemon.address, RANKS, restarts=1, INDUCTORD_MAX_WAIT=BOUND_S)

    def rank(self, number: int) -> psutil.Process:
        children = psutil.Process(self.job.process.pid).children()
        (found,) = (child for child in children if child.environ().get("RANK") == str(number))
        return found


def ask(node: Node, graph: bytes) -> bytes:
    """For a script, of the workers that are the ranks'."""

    async def answer() -> bytes:
        async with rank(node.daemon.address) as one:
            return (await one.compile(graph, toolchain=node.tiny.toolchain)).artifact

    return asyncio.run(answer())


def never_uploaded(node: Node, start_rank: Callable[..., Rank], stuck: Path, named: str = "") -> tuple[Rank, Rank]:
    """A rank that leads and never ends its upload, and another one that joined it. ``stuck``: a file that says so."""
    leader = start_rank(node, f"{named}leader", "stuck_upload.py", STUCK=str(stuck))
    leader.until(stuck.exists, "the leader is asked for the graph")
    follower = start_rank(node, f"{named}follower", "tiny.py")
    follower.until(lambda: node.compile.waiters == 2, "the other rank joined")
    return leader, follower


def the_head_dies(
    cluster: RayCluster,
    gates: Gates,
    nodes: tuple[Node, Node],
    start_rank: Callable[..., Rank],
    threads: ThreadPoolExecutor,
    stuck: Path,
) -> None:
    """While a rank uploads to the one node, and the same graph of a rank of the other node is in the cluster's queue."""
    uploading, queueing = nodes
    before = uploading.cluster.registry
    # What it knows goes with it.
    cluster.registry().kill()
    for node in nodes:
        wait_until(lambda at=node: at.cluster.registry not in ("", before), "there is another", CONNECTED_S)
        node.forget()
    last = threads.submit(ask, queueing, LAST)
    gates.worker(key_of(LAST))
    queued = start_rank(queueing, "queued", "tiny.py")
    leader, follower = never_uploaded(uploading, start_rank, stuck, "last ")
    queued.until(lambda: queueing.cluster.flights == 2, "the graph is in the queue")
    cluster.kill_head()
    for node in nodes:
        follower.until(lambda at=node: at.daemon.status().pool.kind == "local", "the local pool serves")
    assert uploading.compile.state == pb.COMPILE_STATE_UPLOADING
    leader.kill()
    gates.open(key_of(LAST))
    for each in (queued, follower):
        assert each.trained().fallbacks == {}
    assert last.result(CONNECTED_S) == artifact_of(LAST, 100)
    # The two that were there, and the backward graph if it came before Ray was given up. The other node had given Ray none.
    assert uploading.metric("ray_jobs_total", end="moved") == 0
    assert queueing.metric("ray_jobs_total", end="moved") in (2, 3)
    assert queueing.metric("ray_job_seconds_total", end="moved") > 0
    for node in nodes:
        node.until_lost(1)
        assert "Ray cannot be had, the local pool serves" in node.daemon.status().pool.note


def another_head_comes(
    cluster: RayCluster,
    gates: Gates,
    nodes: tuple[Node, Node],
    start_rank: Callable[..., Rank],
    threads: ThreadPoolExecutor,
) -> None:
    """At the same address: a new cluster, which serves all again, until its registry is frozen."""
    gates.open(key_of(AFTERWARDS))
    again = cluster.anew()
    try:
        for node in nodes:
            until_connected(node.daemon)
        assert [ask(node, AFTERWARDS) for node in nodes] == [artifact_of(AFTERWARDS, 101)] * 2
        for node in nodes:
            status = node.daemon.status().pool
            assert (status.kind, status.note) == ("ray", "")
        wait_until(lambda: (nodes[0].cluster.compiles, nodes[0].cluster.found) == (1, 1), "one compile for all")
        node = nodes[0]
        node.forget()
        for key in node.tiny.keys:
            gates.close(key)  # A machine may be so slow that the rank asks when the local pool serves.
        again.registry().suspend()
        # A rank gives up as it said. A patient client waits as long as the daemon does, and then the local pool serves.
        patient = threads.submit(ask, node, LAST)
        ended = start_rank(node, "impatient", "tiny.py", INDUCTORD_MAX_WAIT="2").trained()
        assert ended.fallbacks == {"wait_exceeded": GRAPHS}, ended.err
        assert node.metric("fallback_total", reason="wait_exceeded") == GRAPHS
        for key in node.tiny.keys:
            gates.open(key)
        assert patient.result(CONNECTED_S) == artifact_of(LAST, 100)
        assert node.metric("ray_jobs_total", end="moved") >= 1
        node.until_lost(2)
    finally:
        again.close()


def test_a_job_outlives_all_that_dies_at_each_stage_of_its_compiles(
    tiny: Tiny, gates: Gates, nodes_of_workers: RayCluster, tmp_path: Path
) -> None:
    cluster, blockers = nodes_of_workers, [key_of(each) for each in BLOCKERS]
    forward, backward = tiny.keys
    settings = {name: content for name, content in recorded(tiny).items() if name != "environment"}
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(len(BLOCKERS)))

        def daemon(name: str, **more: object) -> DaemonProcess:
            of_this = {**settings, "max_workers": 1, **more}
            one = stack.enter_context(ray_daemon(tmp_path / name, cluster.address, **of_this))
            until_connected(one)
            return one

        def single_rank(node: Node, name: str, script: str, **more: str) -> Rank:
            more = {"INDUCTORD_MAX_WAIT": BOUND_S, **more}
            one = Rank(tiny, tmp_path / name, node.daemon.address, int("follower" in name), 2, python(script), **more)
            stack.callback(one.close)
            return one

        # Uploading: a rank that never ends its upload leads, and another joins it.
        beside, dying = (Node(tiny, daemon(name, heartbeat_seconds=UPLOAD_S / 5)) for name in ("beside", "dying"))
        blocked = [threads.submit(ask, beside, BLOCKERS[0])]
        gates.worker(blockers[0])
        leader, follower = never_uploaded(dying, single_rank, tmp_path / "stuck")
        assert dying.compile.state == pb.COMPILE_STATE_UPLOADING
        cluster.registry().kill()
        worker = gates.worker(blockers[0])
        follower.until(lambda: dying.metric("cluster_reattached_total") == 1, "the daemon has found the new registry")
        for number, each in enumerate(BLOCKERS[1:]):
            blocked.append(threads.submit(ask, beside, each))
            follower.until(lambda there=number + 1: beside.daemon.status().pool.queued == there, "it is in the queue")
        leader.kill()
        follower.until(lambda: dying.compile.state == pb.COMPILE_STATE_QUEUED, "the other rank gave the graph")

        # Queued: behind the blockers, of which one has the only worker.
        nodes = [JobNode(tiny, tmp_path / f"job{number}", daemon(f"{number}")) for number in range(NODES)]
        for node in nodes:
            stack.callback(node.job.close)
        job = nodes[0].job

        def all_wait(beside_them: int = 0) -> bool:
            waiting = [node.compile.waiters for node in nodes]
            return waiting == [RANKS] * NODES and nodes[0].cluster.waiting >= NODES + beside_them

        def until_all_wait(beside_them: int = 0) -> None:
            job.until(lambda: all_wait(beside_them), "all ranks wait")

        until_all_wait(len(BLOCKERS) + 1)
        # The worker goes, and then the next one with its node: each time its place goes to what waits for longest.
        worker.kill()
        worker = gates.worker(blockers[1], job)
        job.until(lambda: beside.cluster.retries == 1, "it is to be compiled once more")
        cluster.kill_node(cluster.node_of(worker.pid))
        gates.worker(blockers[2], job)
        job.until(lambda: beside.cluster.retries == 2, "that one too")
        assert beside.metric("cluster_worker_failures_total", reason="died") == 2
        # The daemon that gave the graph.
        assert dying.compile.state == pb.COMPILE_STATE_QUEUED
        dying.daemon.kill()
        job.until(lambda: beside.cluster.silent_daemons == 1, "its silence is noticed")
        assert follower.trained().fallbacks == {"daemon_lost": 1, "daemon_absent": 1}
        assert [node.compile.state for node in nodes] == [pb.COMPILE_STATE_QUEUED] * NODES
        before = beside.cluster.registry
        cluster.registry().kill()
        job.until(lambda: [node.metric("cluster_reattached_total") for node in nodes] == [1] * NODES, "all ask again")
        for each in blockers:
            gates.open(each)

        # Compiling.
        worker = gates.worker(forward, job)
        until_all_wait()

        def blockers_are_next() -> bool:
            pool, done = beside.daemon.status().pool, sum(each.done() for each in blocked)
            return pool.cluster.registry not in ("", before) and pool.queued + done == len(BLOCKERS)

        # Daemons ask again in any order. Each is done, or comes before another try of the forward graph.
        job.until(blockers_are_next, "the blockers are out of the way")
        worker.kill()
        gates.worker(forward, job)
        assert [each.result(CONNECTED_S) for each in blocked] == [
            artifact_of(each, 64 + number) for number, each in enumerate(BLOCKERS)
        ]
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
        # This registry saw the forward graph begun, begun again without its node, and again without its artifact.
        seen = other.cluster
        assert (seen.compiles, seen.retries, seen.lost_artifacts) == (4, 1, 1)
        # No node compiled by itself.
        assert "moved" not in nonzero(other.daemon, "inductord_ray_jobs_total")
        the_head_dies(cluster, gates, (beside, other), single_rank, threads, tmp_path / "stuck again")
        another_head_comes(cluster, gates, (beside, other), single_rank, threads)
