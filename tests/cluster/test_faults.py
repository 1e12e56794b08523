"""Three daemons on a real Ray cluster: one compile for all, whatever of it dies. The order matters: the head dies last."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.cluster import RayCluster, ray_daemon, until_connected
from support.daemon import DaemonProcess
from support.pools import script, until
from support.rank import Answer, RankStream, key_of, rank
from support.scrape import nonzero, page, samples, value
from workers.scripted import artifact_of

from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import ClusterStatus

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]


def begun(log: Path, graph: bytes) -> int:
    """How often a worker of any pool began this graph."""
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(json.loads(line)["graph"].encode() == graph for line in lines)


def cluster_of(daemon: DaemonProcess) -> ClusterStatus:
    return daemon.status().pool.cluster


def moved(daemon: DaemonProcess) -> int:
    """Graphs that the local pool took from Ray."""
    return nonzero(daemon, "inductord_ray_jobs_total").get("moved", 0)


class Gate:
    """A graph that is compiled until it is let go; its worker tells its pid."""

    def __init__(self, folder: Path, *steps: list[Any]) -> None:
        self._go, self._pid = folder / "go", folder / "pid"
        self.graph = script(["touch", str(self._pid)], ["wait_for", str(self._go)], *steps)
        self.key = key_of(self.graph)

    async def pid(self) -> int:
        """Of the worker that is at it."""
        await until(self._pid.exists, "a worker has the graph")
        return int(self._pid.read_text())

    def again(self) -> None:
        """Forget which worker had it."""
        self._pid.unlink()

    def open(self) -> None:
        """Let it be finished."""
        self._go.touch()


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


async def opened(stack: contextlib.AsyncExitStack, daemon: DaemonProcess, graph: bytes) -> RankStream:
    """A client of ``daemon`` that asks for ``graph`` and has given it if it was asked to."""
    one = await stack.enter_async_context(rank(daemon.address))
    return await one.open(key_of(graph))


async def finish(streams: list[RankStream], graph: bytes) -> list[Answer]:
    """All answers, each the right artifact."""
    answers = await asyncio.gather(*(stream.finish(graph) for stream in streams))
    assert [answer.artifact for answer in answers] == [artifact_of(graph)] * len(answers)
    return list(answers)


@contextlib.asynccontextmanager
async def asking(daemons: list[DaemonProcess], gate: Gate) -> AsyncIterator["asyncio.Task[list[Answer]]"]:
    """A client of each daemon waits for the graph of ``gate``, which a worker has and holds."""
    async with contextlib.AsyncExitStack() as stack:
        streams = [await opened(stack, daemon, gate.graph) for daemon in daemons]
        waiting = asyncio.create_task(finish(streams, gate.graph))
        await gate.pid()
        await until(lambda: cluster_of(daemons[-1]).waiting == len(daemons), "all daemons wait")
        yield waiting
        await waiting


async def test_three_daemons_of_four_ranks_cause_one_compile_a_key(
    daemons: list[DaemonProcess], worker_log: Path
) -> None:
    graphs = [script(["size", 200_000 + number]) for number in range(6)]
    before = cluster_of(daemons[0]).compiles

    async def one(daemon: DaemonProcess, graph: bytes) -> Answer:
        async with rank(daemon.address) as client:
            return await client.compile(graph)

    order = [(daemon, graph) for daemon in daemons for graph in graphs for _ in range(4)]
    answers = await asyncio.gather(*(one(*each) for each in order))
    assert [answer.artifact for answer in answers] == [
        artifact_of(graph, 200_000 + graphs.index(graph)) for _, graph in order
    ]
    assert [begun(worker_log, graph) for graph in graphs] == [1] * 6
    # The daemons' own counts add up to the same, and so does the registry's.
    assert sum(daemon.status().totals.compiles for daemon in daemons) == 6
    assert sum(answer.served == pb.SERVED_LED for answer in answers) == 6
    await until(lambda: cluster_of(daemons[0]).compiles - before == 6, "the registry has counted")
    seen = [samples(page(daemon)) for daemon in daemons]
    ends = ("compiled", "joined", "found")
    jobs = [sum(value(each, "inductord_ray_jobs_total", end=end) for each in seen) for end in ends]
    assert jobs[0] == 6
    assert sum(jobs) == 18
    assert all(value(each, "inductord_ray_connected") == 1 for each in seen)
    # The daemon itself has no Ray.
    assert max(daemon.status().rss_bytes for daemon in daemons) < 120 << 20


async def test_a_worker_that_is_killed_costs_one_retry(
    daemons: list[DaemonProcess], gate: Gate, worker_log: Path
) -> None:
    before = cluster_of(daemons[0])
    async with asking(daemons, gate) as waiting:
        pid = await gate.pid()
        gate.again()
        psutil.Process(pid).kill()
        await gate.pid()
        gate.open()
        await waiting
    assert begun(worker_log, gate.graph) == 2
    await until(lambda: cluster_of(daemons[0]).retries == before.retries + 1, "it is counted")
    died = before.worker_failures.get("died", 0)
    assert value(samples(page(daemons[0])), "inductord_cluster_worker_failures_total", reason="died") == died + 1


async def test_a_leader_that_goes_away_takes_nobody_with_it(
    daemons: list[DaemonProcess], gate: Gate, worker_log: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        leading = await opened(stack, daemons[0], gate.graph)
        await leading.until("send_graph")
        joining = await opened(stack, daemons[0], gate.graph)
        # Killed while it uploads: the next rank of the node is asked.
        await leading.header(gate.graph)
        leading.cancel()
        waiting = asyncio.create_task(finish([joining], gate.graph))
        await gate.pid()
        # Killed while the cluster compiles: the other node's rank is served.
        elsewhere = await opened(stack, daemons[1], gate.graph)
        other = asyncio.create_task(finish([elsewhere], gate.graph))
        await until(lambda: cluster_of(daemons[2]).waiting == 2, "both daemons wait")
        waiting.cancel()
        joining.cancel()
        gate.open()
        await other
    assert begun(worker_log, gate.graph) == 1


async def test_a_daemon_that_is_killed_takes_nobody_with_it(
    cluster: RayCluster, daemons: list[DaemonProcess], gate: Gate, worker_log: Path, tmp_path: Path
) -> None:
    silent = cluster_of(daemons[0]).silent_daemons
    with ray_daemon(tmp_path / "victim", cluster.address) as victim:
        until_connected(victim)
        async with contextlib.AsyncExitStack() as stack:
            leading = await opened(stack, victim, gate.graph)
            await leading.until("send_graph")
            await leading.upload(gate.graph)
            await gate.pid()
            joining = await opened(stack, daemons[0], gate.graph)
            waiting = asyncio.create_task(finish([joining], gate.graph))
            await until(lambda: cluster_of(daemons[1]).waiting == 2, "both daemons wait")
            victim.kill()
            await until(lambda: cluster_of(daemons[1]).silent_daemons == silent + 1, "it is found to be silent")
            gate.open()
            await waiting
    assert begun(worker_log, gate.graph) == 1


async def test_a_registry_that_is_killed_loses_no_waiter(
    cluster: RayCluster, daemons: list[DaemonProcess], gate: Gate, worker_log: Path
) -> None:
    before = cluster_of(daemons[0]).registry
    async with asking(daemons, gate) as waiting:
        gate.again()
        cluster.registry().kill()
        await gate.pid()  # It has started anew, and the graph was given to it.
        gate.open()
        await waiting
    # What it had begun died with it and was done once more, for all.
    assert begun(worker_log, gate.graph) == 2
    for daemon in daemons:
        await until(lambda daemon=daemon: cluster_of(daemon).registry not in ("", before), "it knows the new one")  # type: ignore[misc]
        assert cluster_of(daemon).reattached == 1
        assert moved(daemon) == 0


async def test_a_node_that_dies_costs_one_retry(
    cluster: RayCluster, daemons: list[DaemonProcess], gate: Gate, worker_log: Path
) -> None:
    victim = cluster.add_node(2)
    cluster.nodes.append(victim)
    before = cluster_of(daemons[0])
    async with asking(daemons, gate) as waiting:
        pid = await gate.pid()
        gate.again()
        cluster.kill_node(cluster.node_of(pid))
        await gate.pid()
        gate.open()
        await waiting
    assert begun(worker_log, gate.graph) == 2
    await until(lambda: cluster_of(daemons[0]).retries == before.retries + 1, "it is counted")
    assert [moved(daemon) for daemon in daemons] == [0, 0, 0]


async def test_without_the_head_every_node_compiles_for_itself(
    cluster: RayCluster, daemons: list[DaemonProcess], gate: Gate, worker_log: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        streams = [await opened(stack, daemon, gate.graph) for daemon in daemons]
        waiting = asyncio.create_task(finish(streams, gate.graph))
        await gate.pid()
        gate.open()
        cluster.kill_head()
        await waiting
        graph = script(["size", 4321])
        for daemon in daemons:
            await until(lambda daemon=daemon: daemon.status().pool.kind == "local", "the local pool serves")  # type: ignore[misc]
            async with rank(daemon.address) as one:
                assert (await one.compile(graph)).artifact == artifact_of(graph, 4321)
            assert "Ray cannot be had, the local pool serves" in daemon.status().pool.note
            assert nonzero(daemon, "inductord_ray_connections_total").keys() >= {"connected", "lost"}
    assert begun(worker_log, graph) == 3
