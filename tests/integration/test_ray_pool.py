"""The Ray pool on a real Ray of this machine, with scripted workers in place of compiles."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.needs import needs_module
from support.pools import SCRIPTED, alive, children, job, script, until
from workers import scripted

from inductord.v1.compiler_pb2 import FailureKind, Toolchain
from inductord.worker.pool import Compiled, Failed, Job, Outcome, Pool, PoolUnavailable
from inductord.worker.ray_pool import RayPool, RayPoolConfig

pytestmark = pytest.mark.integration
TESTS = Path(__file__).parent.parent


@contextlib.asynccontextmanager
async def ray_pool(scratch: Path, **settings: Any) -> AsyncIterator[RayPool]:
    """A started pool on a Ray of its own. Afterwards it is stopped, and nothing of it is left."""
    settings = {"max_workers": 1, "max_artifact_bytes": 2**20, "address": "local", "command": SCRIPTED} | settings
    pool = RayPool(RayPoolConfig(scratch=scratch, connect_timeout=120, **settings))
    others = set(children())
    try:
        await pool.start()
        yield pool
    finally:
        await pool.stop(30.0)
    await until(lambda: others.issuperset(children()), "no process of the pool is left")
    assert not scratch.exists() or list(scratch.iterdir()) == []


def failures(pool: RayPool) -> dict[str, int]:
    """Worker failures that the registry counted, by reason."""
    return dict(pool.status().cluster.worker_failures)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_module("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


_keys = iter(range(1000))


async def compile_(pool: Pool, *steps: list[Any], key: str = "") -> Outcome:
    """Compile one script, under a key that no other job has: a registry remembers."""
    return await pool.compile(job(*steps, key=key or f"{next(_keys):064x}"), lambda: None)


async def describe(pool: Pool) -> dict[str, Any]:
    """What the next free worker sees of itself."""
    outcome = await compile_(pool, ["describe"])
    assert isinstance(outcome, Compiled), outcome
    seen: dict[str, Any] = json.loads(outcome.artifact)
    return seen


async def test_one_life_of_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Ray for many cases: each start of Ray takes seconds."""
    monkeypatch.setenv("HOME", "/nonexistent")
    async with ray_pool(tmp_path / "scratch", compile_timeout=10.0, room_timeout=3.0) as pool:
        # A graph goes in and its artifact comes back, whole.
        outcome = await compile_(pool, ["size", 2**20])
        assert isinstance(outcome, Compiled)
        assert outcome.artifact == scripted.artifact_of(script(["size", 2**20]), 2**20)
        assert outcome.phases.keys() == {"compile"}

        # The worker is no rank and no client, and has its CPU and no more.
        seen = await describe(pool)
        assert seen["env"]["INDUCTORD"] == "0"
        assert seen["threads"] == 1

        # A failure of the graph costs no worker, nor does an artifact over the limit.
        outcome = await compile_(pool, ["fail", "no such op"])
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.failure.message) == (
            FailureKind.FAILURE_KIND_COMPILE_ERROR,
            "no such op",
        )
        outcome = await compile_(pool, ["size", 2**20 + 1])
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_TOO_LARGE
        assert (await describe(pool))["pid"] == seen["pid"]

        # A worker that dies at every try fails the graph, and the next is served.
        outcome = await compile_(pool, ["die"])
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_WORKER_DIED
        assert "\n" not in outcome.failure.message
        # An endless compile is ended.
        outcome = await compile_(pool, ["touch", str(tmp_path / "endless")], ["spin"])
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_TIMEOUT
        await until(lambda: not alive(int((tmp_path / "endless").read_text())), "the worker is gone")
        assert isinstance(await compile_(pool), Compiled)
        await until(lambda: failures(pool) == {"died": 2, "timeout": 1}, "all are counted")
        assert pool.status().cluster.retries == 1

        # One that dies idle costs no job.
        psutil.Process((await describe(pool))["pid"]).kill()
        assert isinstance(await compile_(pool), Compiled)

        # A job that was cancelled before a worker took it is not compiled.
        calls: list[str] = []
        key, go = "a" * 64, tmp_path / "go"
        running = asyncio.create_task(
            pool.compile(job(["wait_for", str(go)], key=key), lambda: calls.append("started"))
        )
        await until(lambda: calls == ["started"], "it runs")
        waiting = asyncio.create_task(compile_(pool, ["touch", str(tmp_path / "never")]))
        await until(lambda: pool.status().queued == 1, "one waits")
        waiting.cancel()
        await until(lambda: pool.status().queued == 0, "nobody waits")
        # Who asks for what runs gets it, and is not told that a worker started for it.
        joining = asyncio.create_task(pool.compile(job(key=key), lambda: calls.append("started twice")))
        await until(lambda: pool.status().cluster.waiting == 2, "two wait for it")
        go.touch()
        outcomes = await asyncio.gather(running, joining)
        assert all(isinstance(outcome, Compiled) for outcome in outcomes)
        assert calls == ["started"]
        assert not (tmp_path / "never").exists()

        # Where no worker fits, the reason is said at once, and where none has room, soon.
        for graph, why in (
            (Job("b" * 64, script(), Toolchain(torch="9.9")), "torch '0.0-scripted', not '9.9'"),
            (Job("c" * 64, script(), Toolchain(), needs_device=True), "no node of the cluster had room within 3 s for"),
        ):
            outcome = await pool.compile(graph, lambda: None)
            assert isinstance(outcome, Failed)
            assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE
            assert why in outcome.failure.message

        # What runs at stop is answered.
        running = asyncio.create_task(compile_(pool, ["wait_for", "/never"]))
        await until(lambda: pool.status().busy == 1, "it runs")
        await pool.stop(30.0)
        outcome = await running
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE


async def test_no_ray_at_the_address_is_said_so(tmp_path: Path) -> None:
    pool = RayPool(RayPoolConfig(scratch=tmp_path, max_artifact_bytes=1, address="ray://127.0.0.1:1"))
    with pytest.raises(PoolUnavailable, match=r"no Ray answers at ray://127\.0\.0\.1:1: "):
        await pool.start()
    outcome = await pool.compile(job(), lambda: None)
    await pool.stop(1.0)
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE


async def test_ray_not_installed_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/ray.py").write_text("raise ImportError('no ray here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    pool = RayPool(RayPoolConfig(scratch=tmp_path, max_artifact_bytes=1, address="local"))
    with pytest.raises(PoolUnavailable, match=r"inductord\[ray\]"):
        await pool.start()
    await pool.stop(1.0)


@pytest.mark.parametrize("pool", ["local", "ray"])
def test_pools_import_neither_ray_nor_torch(pool: str) -> None:
    program = (
        "import json, sys; import inductord.worker.{0}_pool; "
        "print(json.dumps([name for name in ('ray', 'torch', 'grpc') if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program.format(pool)], check=True, capture_output=True, text=True, timeout=60
    )
    assert json.loads(done.stdout) == []


@pytest.fixture
def hosts() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes to end after the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for host in started:
        host.kill()
        host.wait(30)


@pytest.mark.chaos
async def test_a_ray_of_its_own_does_not_outlive_a_daemon_killed_by_sigkill(
    tmp_path: Path, hosts: list[subprocess.Popen[bytes]]
) -> None:
    begun, scratch = tmp_path / "begun", tmp_path / "scratch"
    host = subprocess.Popen(
        [
            *(sys.executable, "-m", "support.pool_host", "--ray", str(scratch)),
            script(["touch", str(begun)], ["wait_for", "/never"]).decode(),
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    hosts.append(host)
    await until(begun.exists, "the actor runs the script")
    # Ray's agents do end, but only after a minute without their cluster.
    below = [child for child in psutil.Process(host.pid).children(recursive=True) if "Agent" not in child.name()]
    assert int(begun.read_text()) in {process.pid for process in below}
    host.kill()
    host.wait(30)
    await until(lambda: not any(alive(process.pid) for process in below), "Ray is gone")
