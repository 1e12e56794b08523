"""A daemon that is no node of the cluster: Ray Client over a network that is absent, slow and cut."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import RayCluster, ray_daemon, until_connected
from support.daemon import wait_until
from support.jobs import GRAPHS, Rank, Tiny
from support.needs import needs_module
from support.pools import script, until
from support.proxy import Proxy, listens
from support.rank import key_of, rank
from support.scrape import nonzero
from support.training import python
from workers.scripted import artifact_of

from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1200)]


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The way to the head's Ray Client server."""
    needs_module("ray")
    # That server forks a process for each client. With gRPC's fork handlers many of them die at once, and Ray tells its client
    # so after 40 s.
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
    with Proxy(0) as server:
        port = server.port  # Ray takes no port 0 here.
    cluster = RayCluster(workers=1, cpus=2, head_arguments={"ray_client_server_port": port})
    try:
        wait_until(lambda: listens(port), "the head's Ray Client server listens")
        with Proxy(port) as proxy:
            yield proxy
    finally:
        cluster.close()


async def test_a_daemon_beside_the_cluster_uses_it_when_it_can(tiny: Tiny, way: Proxy, tmp_path: Path) -> None:
    settings = {"max_workers": 2, "heartbeat_seconds": 2}
    with ray_daemon(tmp_path, f"ray://127.0.0.1:{way.port}", **settings) as daemon:

        def serving(kind: str) -> bool:
            return daemon.status().pool.kind == kind

        async with rank(daemon.address) as one:
            # Absent at the start.
            graph = script(["size", 1000])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 1000)
            assert "Ray cannot be had, the local pool serves: no Ray answers" in daemon.status().pool.note
            # Arriving later.
            way.start()
            await asyncio.to_thread(until_connected, daemon)
            assert daemon.status().pool.note == ""
            graph = script(["size", 2_000_000])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 2_000_000)
            # Slow.
            way.delay = 0.02
            graph = script(["size", 2_000_001])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 2_000_001)
            assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 2}
            # So slow that a rank that trains gives up, which it does as it said: it compiles by itself. For its forward graph
            # there is a more patient one, who is served; its backward graph needs six ways at least, one after the other.
            go = tmp_path / "go"
            graph = script(["wait_for", str(go)])
            patient = await one.open(tiny.keys[0])
            await patient.until("send_graph")
            await patient.upload(graph)
            await patient.until_state(pb.COMPILE_STATE_COMPILING)
            way.delay = 1.5
            training = Rank(tiny, tmp_path / "rank", daemon.address, 0, 1, python("tiny.py"), INDUCTORD_MAX_WAIT="5")
            with contextlib.closing(training):
                ended = await asyncio.to_thread(training.trained)
            assert (ended.fallbacks, ended.count("led")) == ({"wait_exceeded": GRAPHS}, 0), ended.err
            assert nonzero(daemon, "inductord_fallback_total") == {"wait_exceeded": GRAPHS}
            assert nonzero(daemon, "inductord_compile_requests_total")["cancelled"] == GRAPHS
            go.touch()
            assert (await patient.finish()).artifact == artifact_of(graph)
            way.delay = 0.0
            assert serving("ray")
            # What was only asked for when the last one left is not compiled.
            assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 3}

            # Cut in mid-compile: the local pool takes it. The first worker waits for ever, the second has its mark.
            marks = tmp_path / "marks"
            marks.mkdir()
            graph = script(["touch", str(marks / "pid")], ["wait_for", str(marks / "go")])
            stream = await one.open(key_of(graph))
            await stream.until("send_graph")
            await stream.upload(graph)
            finishing = asyncio.create_task(stream.finish())
            await until((marks / "pid").exists, "the cluster has it")
            pid = (marks / "pid").read_text()
            way.cut()
            await until(lambda: (marks / "pid").read_text() != pid, "the local pool has it")
            await until(lambda: serving("local"), "the local pool serves")
            (marks / "go").touch()
            assert (await finishing).artifact == artifact_of(graph)
            assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 3, "moved": 1}
            assert nonzero(daemon, "inductord_ray_connections_total").keys() == {"refused", "connected", "lost"}

            # Mended.
            way.mend()
            await asyncio.to_thread(until_connected, daemon)
            graph = script(["size", 3000])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 3000)
        assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 4, "moved": 1}
