"""Three daemons on a real Ray cluster: one compile for all, on nodes that fit; and clusters that cannot be used."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.cluster import CONNECTED_S, RayCluster, ray_daemon
from support.daemon import DaemonProcess, wait_until
from support.pools import script, until
from support.rank import Answer, key_of, rank
from support.scrape import nonzero, page, samples, value
from workers.scripted import artifact_of

from inductord import __version__
from inductord.compiler.versions import KEY_FORMAT
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.admin_pb2 import ClusterStatus

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]

SCRIPTS = Path(__file__).parent.parent / "workers"


def begun(log: Path, graph: bytes) -> int:
    """How often a worker of any pool began this graph."""
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(json.loads(line)["graph"].encode() == graph for line in lines)


def cluster_of(daemon: DaemonProcess) -> ClusterStatus:
    return daemon.status().pool.cluster


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


async def test_graphs_go_to_nodes_that_are_labelled_for_them(cluster: RayCluster, daemons: list[DaemonProcess]) -> None:
    async def node(kind: str) -> object:
        async with rank(daemons[0].address) as one:
            answer = await one.compile(script(["describe"], [kind]), toolchain=pb.Toolchain(accelerator=kind))
        return cluster.node_of(json.loads(answer.artifact)["pid"])

    assert await asyncio.gather(node("kind 1"), node("kind 0")) == [cluster.nodes[1], cluster.nodes[0]]


def test_an_artifact_is_read_where_the_object_store_has_it(cluster: RayCluster) -> None:
    reader = [sys.executable, str(SCRIPTS / "reader.py")]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    ended = subprocess.run(reader, env=environment, capture_output=True, text=True, timeout=CONNECTED_S, check=False)
    assert "/plasma" in ended.stdout, ended.stderr


async def test_a_cluster_of_another_version_is_not_used_and_named(cluster: RayCluster, tmp_path: Path) -> None:
    import ray

    with cluster.saying_it_has("2.0.0"), ray_daemon(tmp_path, cluster.address) as daemon:
        async with rank(daemon.address) as one:
            assert (await one.compile(b"[]")).artifact == artifact_of(b"[]")
        note = daemon.status().pool.note
        assert "Ray cannot be had, the local pool serves" in note
        assert f"the Ray at {cluster.address} cannot be used: RuntimeError: Version mismatch" in note
        assert "Ray: 2.0.0 " in note
        assert f"Ray: {ray.__version__} " in note


async def test_graphs_that_measure_get_a_device_each(
    cluster: RayCluster, daemons: list[DaemonProcess], tmp_path: Path
) -> None:
    model_of_node = {"inductord.io/accelerator": "of-another-model"}
    cluster.nodes.append(cluster.add_node(2, num_gpus=2, labels=model_of_node))
    await until(lambda: daemons[0].status().pool.devices == 2, "the cluster has free devices")
    go = tmp_path / "go"

    async def device(number: int, *, needed: bool) -> str:
        begun = tmp_path / f"{number}"
        graph = script(["touch", str(begun)], ["wait_for", str(go)], ["describe"])
        async with rank(daemons[0].address) as one:
            stream = await one.open(key_of(graph), needs_device=needed)
            answering = asyncio.create_task(stream.finish(graph))
            await until(begun.exists, "a worker has the graph")
            assert stream.answer.worker_measures == needed
            if all((tmp_path / f"{each}").exists() for each in range(3)):
                go.touch()
            seen = json.loads((await answering).artifact)
        return str(seen["env"].get("CUDA_VISIBLE_DEVICES", ""))

    found = await asyncio.gather(device(0, needed=True), device(1, needed=True), device(2, needed=False))
    assert sorted(found) == ["", "0", "1"]
    assert "moved" not in nonzero(daemons[0], "inductord_ray_jobs_total")
    # A worker that cannot measure for this model fails. The rank is asked once more, and the model is known from then on.
    failing = script(["fail", "another device", pb.FAILURE_KIND_UNLOADABLE])
    model = pb.Toolchain(accelerator="of another model")
    await until(lambda: daemons[1].status().pool.devices == 2, "workers hold devices")
    async with rank(daemons[1].address) as one:
        stream = await one.open(key_of(failing), needs_device=True, toolchain=model)
        for worker_measures in (True, False):
            await stream.until("send_graph")
            assert stream.answer.worker_measures == worker_measures
            await (stream.say(refused=pb.GraphRefused()) if stream.answer.asked > 1 else stream.upload(failing))
        assert (await stream.finish()).failure is not None
        later = await one.open(key_of(b"of the same model"), needs_device=True, toolchain=model)
        await later.until("send_graph")
        assert not later.answer.worker_measures
        later.cancel()


def test_a_cluster_of_another_inductord_is_not_used_and_named(cluster: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import inductord\nfrom inductord.compiler import versions\ninductord.__version__ = '9.9'\nversions.KEY_FORMAT = 999\n"
    )
    # A registry of this daemon's release cannot be made where the head has another.
    with ray_daemon(tmp_path, cluster.address, environment={"PYTHONPATH": str(tmp_path)}) as daemon:
        wait_until(lambda: daemon.status().pool.note != "", "the daemon has asked the cluster")
        note = daemon.status().pool.note
        assert "Ray cannot be had, the local pool serves: versions differ: " in note
        assert f"the cluster has inductord {__version__}, this node 9.9" in note
        assert f"the cluster has key format {KEY_FORMAT}, this node 999" in note
        assert nonzero(daemon, "inductord_ray_connections_total").keys() == {"refused"}
