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
from support.pools import Recorder, alive, children, compile_, describe, job, script, until
from workers import scripted

from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker.failures import WorkerFailure
from inductord.worker.pool import Compiled, Failed, PoolUnavailable
from inductord.worker.ray_pool import RayPool, RayPoolConfig

pytestmark = pytest.mark.integration
TESTS = Path(__file__).parent.parent


@contextlib.asynccontextmanager
async def ray_pool(scratch: Path, recorder: Recorder | None = None, **settings: Any) -> AsyncIterator[RayPool]:
    """A started pool on a Ray of its own. Afterwards it is stopped, and nothing of it is left."""
    settings = {"max_workers": 1, "max_artifact_bytes": 2**20, "address": "local"} | settings
    config = RayPoolConfig(scratch=scratch, environment={"PYTHONPATH": str(TESTS)}, **settings)
    pool = RayPool(config, recorder or Recorder(), warm=scripted.warm, compile_graph=scripted.compile_graph)
    others = set(children())
    try:
        await pool.start()
        yield pool
    finally:
        await pool.stop(5.0)
    await until(lambda: others.issuperset(children()), "no process of the pool is left")
    assert list(scratch.iterdir()) == []


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_module("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


async def test_one_life_of_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Ray for many cases: each start of Ray takes seconds."""
    monkeypatch.setenv("HOME", "/nonexistent")
    recorder = Recorder()
    async with ray_pool(tmp_path / "scratch", recorder, compile_timeout=20.0) as pool:
        # A graph goes in and its artifact comes back.
        calls: list[str] = []
        outcome = await compile_(pool, ["sleep", 0])
        assert isinstance(outcome, Compiled)
        assert outcome.artifact == scripted.artifact_of(script(["sleep", 0]))
        assert outcome.phases.keys() == {"compile"}

        # The actor is no rank, no client, and keeps its caches where it was told to.
        seen = await describe(pool)
        assert seen["env"]["INDUCTORD"] == "0"
        assert Path(seen["env"]["TORCHINDUCTOR_CACHE_DIR"]).is_relative_to(tmp_path)

        # A failure of the graph costs no actor, nor does an artifact over the limit.
        outcome = await compile_(pool, ["fail", "no such op"])
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_COMPILE_ERROR, False)
        outcome = await compile_(pool, ["size", 2**20 + 1])
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_TOO_LARGE
        assert (await describe(pool))["pid"] == seen["pid"]
        assert recorder.failures == []

        # An actor that dies in mid-compile, or raises, is replaced.
        for step, told in ((["die"], "ActorDiedError"), (["raise_", "a defect"], "RuntimeError: a defect")):
            outcome = await compile_(pool, step)
            assert isinstance(outcome, Failed)
            assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_WORKER_DIED, True)
            assert told in outcome.failure.message
            assert "\n" not in outcome.failure.message
            assert isinstance(await compile_(pool), Compiled)
        assert recorder.failures == [WorkerFailure.DIED] * 2

        # One that dies idle costs no job.
        psutil.Process((await describe(pool))["pid"]).kill()
        assert isinstance(await compile_(pool), Compiled)
        assert pool.status().crashes == 3

        # A cancelled job ends its actor; jobs wait in order meanwhile.
        running = asyncio.create_task(
            pool.compile(job(["touch", str(tmp_path / "pid")], ["spin"]), lambda: calls.append("started"))
        )
        await until((tmp_path / "pid").exists, "it runs")
        waiting = asyncio.create_task(compile_(pool))
        await until(lambda: pool.status().queued == 1, "one waits")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert isinstance(await waiting, Compiled)
        assert calls == ["started"]
        await until(lambda: not alive(int((tmp_path / "pid").read_text())), "the actor is gone")
        assert recorder.failures[3:] == [WorkerFailure.CANCELLED]

        # What runs at stop is answered.
        running = asyncio.create_task(compile_(pool, ["spin"]))
        await until(lambda: pool.status().busy == 1, "it runs")
        await pool.stop(1.0)
        outcome = await running
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE


async def test_an_endless_compile_is_ended(tmp_path: Path) -> None:
    recorder = Recorder()
    async with ray_pool(tmp_path / "scratch", recorder, compile_timeout=3.0, max_workers=2) as pool:
        outcome = await compile_(pool, ["touch", str(tmp_path / "pid")], ["spin"])
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_TIMEOUT, False)
        await until(lambda: not alive(int((tmp_path / "pid").read_text())), "the actor is gone")
        assert isinstance(await compile_(pool), Compiled)
    assert recorder.failures == [WorkerFailure.TIMEOUT]


def test_no_ray_at_the_address_is_said_so(tmp_path: Path) -> None:
    # In a process of its own: Ray reads how long it tries when it is imported.
    program = """
import asyncio, pathlib, sys
from inductord.worker.pool import PoolUnavailable
from inductord.worker.ray_pool import RayPool, RayPoolConfig

async def main():
    pool = RayPool(RayPoolConfig(scratch=pathlib.Path(sys.argv[1]), max_artifact_bytes=1, address="ray://127.0.0.1:1"))
    try:
        await pool.start()
    except PoolUnavailable as error:
        print(error)
    await pool.stop(1.0)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "1"},
    )
    assert done.stdout.startswith("no Ray answers at ray://127.0.0.1:1: ")
    assert list(tmp_path.iterdir()) == []


async def test_ray_not_installed_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    pool = RayPool(RayPoolConfig(scratch=tmp_path, max_artifact_bytes=1, address="local"))
    with pytest.raises(PoolUnavailable, match=r"inductord\[ray\]"):
        await pool.start()
    await pool.stop(1.0)


@pytest.mark.parametrize("pool", ["local", "ray"])
def test_ray_is_imported_for_its_own_pool_alone_and_torch_for_none(pool: str) -> None:
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
