"""Daemon and ranks beside the cluster: Ray Client over a network that is absent, slow and cut, while ranks train."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import RayCluster, ray_daemon, until_connected
from support.daemon import wait_until
from support.gates import Gates
from support.jobs import GRAPHS, Tiny, recorded, under_torchrun
from support.needs import needs_module
from support.pools import script
from support.proxy import Proxy, listens
from support.rank import key_of, rank
from support.scrape import nonzero, page, samples, value
from workers.scripted import artifact_of

from inductord.daemon.client import AdminClient
from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(1200)]

RANKS = 2
# What a rank may wait; no rank does, or it would say so.
BOUND_S = "900"


@dataclasses.dataclass(frozen=True)
class Far:
    """A cluster, and the only way to its head's Ray Client server."""

    cluster: RayCluster
    way: Proxy


@pytest.fixture
def far(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
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
            yield Far(cluster, proxy)
    finally:
        cluster.close()


async def test_a_job_beside_the_cluster_uses_it_when_it_can(tiny: Tiny, gates: Gates, far: Far, tmp_path: Path) -> None:
    forward, backward = tiny.keys
    way = far.way
    with ray_daemon(tmp_path, f"ray://127.0.0.1:{way.port}", **recorded(tiny, **gates.faults)) as daemon:
        job = under_torchrun(tiny, tmp_path / "job", daemon.address, RANKS, INDUCTORD_MAX_WAIT=BOUND_S)
        with contextlib.closing(job):
            # Absent at the start.
            gates.worker(forward, job)
            assert "Ray cannot be had, the local pool serves: no Ray answers" in daemon.status().pool.note
            # Arriving later, in mid-compile.
            way.start()
            until_connected(daemon)
            assert daemon.status().pool.note == ""
            gates.open(forward)
            # Cut in mid-compile: the local pool takes it.
            there = gates.worker(backward, job)
            job.until(lambda: [each.waiters for each in daemon.status().compiles] == [RANKS], "all ranks wait for it")
            way.cut()
            here = gates.worker(backward, job)
            assert here.pid != there.pid
            job.until(lambda: daemon.status().pool.kind == "local", "the local pool serves")
            gates.open(backward)
            ended = job.finish()
        assert (ended.code, ended.fallbacks) == (0, {}), ended.err
        assert [each["losses"] for each in ended.results] == [tiny.losses] * RANKS
        assert nonzero(daemon, "inductord_ray_jobs_total") == {"moved": 1}
        assert value(samples(page(daemon)), "inductord_ray_job_seconds_total", end="moved") > 0
        assert nonzero(daemon, "inductord_ray_connections_total").keys() == {"refused", "connected", "lost"}
        # Mended, and the registry is another one by then: nothing is left there of what was cut off.
        far.cluster.registry().kill()
        way.mend()
        until_connected(daemon)
        with AdminClient(daemon.address) as owner:
            owner.collect(0)
        async with rank(daemon.address) as one:

            async def is_served(size: int) -> None:
                graph = script(["size", size])
                gates.open(key_of(graph))
                assert (await one.compile(graph)).artifact == artifact_of(graph, size)

            await is_served(2_000_000)
            # Slow.
            way.delay = 0.02
            await is_served(2_000_001)
            assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 2, "moved": 1}
            # So slow that ranks that train give up, which they do as they said: they compile by themselves. More patient ones
            # wait for the same graphs and are served.
            go = tmp_path / "go"
            graph = script(["wait_for", str(go)])
            patient = [await one.open(key, toolchain=tiny.toolchain) for key in tiny.keys]
            for each in patient:
                await each.until("send_graph")
                await each.upload(graph)
                await each.until_state(pb.COMPILE_STATE_COMPILING)
            way.delay = 1.5
            training = under_torchrun(tiny, tmp_path / "slow", daemon.address, RANKS, INDUCTORD_MAX_WAIT="5")
            with contextlib.closing(training):
                ended = await asyncio.to_thread(training.finish)
            assert (ended.code, ended.fallbacks) == (0, {"wait_exceeded": RANKS * GRAPHS}), ended.err
            assert [each["losses"] for each in ended.results] == [tiny.losses] * RANKS
            assert nonzero(daemon, "inductord_fallback_total") == {"wait_exceeded": RANKS * GRAPHS}
            assert nonzero(daemon, "inductord_compile_requests_total")["cancelled"] == RANKS * GRAPHS
            go.touch()
            for each in patient:
                assert (await each.finish()).artifact == artifact_of(graph)
            way.delay = 0.0
        assert nonzero(daemon, "inductord_ray_jobs_total") == {"compiled": 4, "moved": 1}
