"""Workers that are forks of one process, and what becomes of them and of it."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.pools import Recorder, alive, compile_, describe, local_pool, until

from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker.failures import WorkerFailure
from inductord.worker.local_pool import LocalPool
from inductord.worker.pool import Compiled, Failed

pytestmark = [pytest.mark.chaos]


@contextlib.asynccontextmanager
async def forking_pool(scratch: Path, **settings: Any) -> AsyncIterator[LocalPool]:
    """A pool of more than one worker, which forks them."""
    async with local_pool(scratch, max_workers=2, **settings) as pool:
        yield pool


def server_of(worker: int) -> psutil.Process:
    """Above the worker is its supervisor, above that the fork server."""
    supervisor = psutil.Process(worker).parent()
    assert supervisor is not None
    server = supervisor.parent()
    assert server is not None
    return server


async def begun(
    pool: LocalPool, pid: Path, *steps: list[Any], first: Sequence[list[Any]] = ()
) -> tuple["asyncio.Task[Any]", int]:
    """A compile that does ``steps``, having done those that come first, and the process id of its worker."""
    running = asyncio.create_task(compile_(pool, *first, ["touch", str(pid)], *steps))
    await until(pid.exists, "it runs")
    return running, int(pid.read_text())


async def test_workers_are_forks_of_one_server_with_folders_of_their_own(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with forking_pool(tmp_path / "scratch") as pool:
        running, one = await begun(pool, tmp_path / "one", ["wait_for", str(gate)])
        seen = await describe(pool)
        assert server_of(one) == server_of(seen["pid"])
        assert seen["cwd"] != psutil.Process(one).cwd()
        assert seen["env"]["TMPDIR"].startswith(seen["cwd"])
        gate.touch()
        assert isinstance(await running, Compiled)


@pytest.mark.parametrize(
    ("step", "said"),
    [(["die", int(signal.SIGSEGV)], "SIGSEGV"), (["exit", 3], "3"), (["raise_", "a defect"], "1")],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
async def test_how_a_fork_ended_is_known_and_what_it_spawned_ends_too(
    tmp_path: Path, step: list[Any], said: str
) -> None:
    recorder = Recorder()
    async with forking_pool(tmp_path / "scratch", on_failure=recorder) as pool:
        outcome = await compile_(pool, ["child", str(tmp_path / "child")], step)
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_WORKER_DIED, True)
        assert said in outcome.failure.message
        await until(lambda: not alive(int((tmp_path / "child").read_text())), "the child is gone")
        assert isinstance(await compile_(pool), Compiled)
    assert recorder.failures == [WorkerFailure.DIED]


async def test_an_environment_may_be_larger_than_a_message_to_the_server(tmp_path: Path) -> None:
    large = {f"LARGE_{number}": "x" * 50_000 for number in range(4)}
    async with forking_pool(tmp_path / "scratch", environment=large) as pool:
        seen = await describe(pool)
        assert server_of(seen["pid"]) != psutil.Process()
        assert large.items() <= seen["env"].items()


async def test_the_death_of_the_server_ends_its_workers_and_another_takes_its_place(tmp_path: Path) -> None:
    async with forking_pool(tmp_path / "scratch") as pool:
        spawns = ["child", str(tmp_path / "child")]
        running, worker = await begun(pool, tmp_path / "pid", ["spin"], first=[spawns])
        child = int((tmp_path / "child").read_text())
        server = server_of(worker)
        server.kill()
        outcome = await running
        assert isinstance(outcome, Failed)
        assert outcome.retryable
        await until(lambda: not alive(worker) and not alive(child), "worker and child are gone")
        assert server_of((await describe(pool))["pid"]) != server


async def test_a_server_that_does_not_answer_is_replaced(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with forking_pool(tmp_path / "scratch", start_timeout=5.0) as pool:
        running, worker = await begun(pool, tmp_path / "pid", ["wait_for", str(gate)])
        server_of(worker).suspend()
        # The other worker would be a fork of a server that stands still.
        assert isinstance(await compile_(pool), Compiled)
        assert isinstance(await running, Failed)
        await until(lambda: not alive(worker), "the fork of the old server is gone")


async def test_a_process_with_threads_is_not_forked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate = tmp_path / "gate"
    async with forking_pool(tmp_path / "scratch", environment={"SCRIPTED_THREAD": "1"}) as pool:
        running, one = await begun(pool, tmp_path / "one", ["wait_for", str(gate)])
        other = (await describe(pool))["pid"]
        # Each has a supervisor, and above that is whoever has the pool.
        assert server_of(one) == server_of(other) == psutil.Process()
        gate.touch()
        assert isinstance(await running, Compiled)
    (said,) = (record.getMessage() for record in caplog.records if "a fork is not safe" in record.getMessage())
    assert "2 threads" in said
