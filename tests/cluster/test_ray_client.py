"""A daemon that is no node of the cluster: Ray Client over a network that is absent, slow and cut."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import RayCluster, ray_daemon
from support.daemon import wait_until
from support.needs import needs_module
from support.pools import script, until
from support.proxy import Proxy, listens
from support.rank import key_of, rank
from support.scrape import nonzero
from workers.scripted import artifact_of

from inductord.compiler.client import Client, Received
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.compiler.versions import this_version
from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(400)]


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


def joined_for(seconds: float, address: str, graph: bytes) -> Received:
    """What a rank gets that joins the compile of ``graph`` and waits no longer than that."""

    def never() -> bytes:
        raise AssertionError("another rank gave the graph")

    client = Client(address)
    try:
        request = pb.OpenCompile(client=this_version(), key=key_of(graph), requester=pb.Requester(job="job", rank=1))
        return client.compile(request, never, lambda _: None, seconds)
    finally:
        client.close()


async def test_a_daemon_beside_the_cluster_uses_it_when_it_can(way: Proxy, tmp_path: Path) -> None:
    with ray_daemon(tmp_path, f"ray://127.0.0.1:{way.port}", max_workers=2) as daemon:

        def serving(kind: str) -> bool:
            return daemon.status().pool.kind == kind

        async with rank(daemon.address) as one:
            # Absent at the start.
            graph = script(["size", 1000])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 1000)
            assert "Ray cannot be had, the local pool serves: no Ray answers" in daemon.status().pool.note
            # Arriving later.
            way.start()
            await until(lambda: serving("ray"), lambda: f"Ray is used; the log:\n{daemon.log()}")
            assert daemon.status().pool.note == ""
            graph = script(["size", 2_000_000])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 2_000_000)
            # Slow.
            way.delay = 0.02
            graph = script(["size", 2_000_001])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 2_000_001)
            assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 2}
            # So slow that a rank gives up, which it does as it said: it compiles by itself. A more patient one is served.
            go = tmp_path / "go"
            graph = script(["wait_for", str(go)], ["size", 4_000_000])
            patient = await one.open(key_of(graph))
            await patient.until("send_graph")
            await patient.upload(graph)
            await patient.until_state(pb.COMPILE_STATE_COMPILING)
            way.delay = 0.5
            go.touch()
            with pytest.raises(Unavailable) as gave_up:
                await asyncio.to_thread(joined_for, 3.0, daemon.address, graph)
            assert gave_up.value.reason is Fallback.WAIT_EXCEEDED
            way.delay = 0.0
            assert (await patient.finish()).artifact == artifact_of(graph, 4_000_000)
            assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 3}
            assert nonzero(daemon, "inductord_compile_requests_total")["cancelled"] == 1

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
            await until(lambda: serving("ray"), lambda: f"Ray is used again; the log:\n{daemon.log()}")
            graph = script(["size", 3000])
            assert (await one.compile(graph)).artifact == artifact_of(graph, 3000)
        assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 4, "moved": 1}
