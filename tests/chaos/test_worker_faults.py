"""Workers that die, hang, grow and are abandoned; each time the pool must go on."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest
from support.pools import Recorder, alive, compile_, local_pool, until

from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker.failures import WorkerFailure
from inductord.worker.pool import Compiled, Failed

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
async def test_a_worker_killed_in_mid_compile_costs_one_job_and_not_the_pool(
    tmp_path: Path, number: signal.Signals
) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path / "scratch", on_failure=recorder) as pool:
        running = asyncio.create_task(compile_(pool, ["touch", str(tmp_path / "pid")], ["spin"]))
        await until((tmp_path / "pid").exists, "it runs")
        os.kill(int((tmp_path / "pid").read_text()), number)
        outcome = await running
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_WORKER_DIED, True)
        assert number.name in outcome.failure.message
        assert isinstance(await compile_(pool), Compiled)
        assert pool.status().crashes == 1
    assert recorder.failures == [WorkerFailure.DIED]


@pytest.mark.parametrize(
    "step",
    [["exit", 0], ["exit", 3], ["raise_", "a defect"], ["nothing"], ["die", int(signal.SIGBUS)]],
    ids=lambda step: "-".join(map(str, step)),
)
async def test_a_worker_that_ends_or_talks_nonsense_is_replaced(tmp_path: Path, step: list[object]) -> None:
    async with local_pool(tmp_path) as pool:
        for crashes in (1, 2):
            outcome = await compile_(pool, step)
            assert isinstance(outcome, Failed)
            assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_WORKER_DIED, True)
            assert pool.status().crashes == crashes
        assert isinstance(await compile_(pool), Compiled)


async def test_the_death_of_a_supervisor_is_the_death_of_its_worker(tmp_path: Path) -> None:
    async with local_pool(tmp_path / "scratch") as pool:
        running = asyncio.create_task(compile_(pool, ["touch", str(tmp_path / "pid")], ["spin"]))
        await until((tmp_path / "pid").exists, "it runs")
        worker = psutil.Process(int((tmp_path / "pid").read_text()))
        supervisor = worker.parent()
        assert supervisor is not None
        supervisor.kill()
        outcome = await running
        assert isinstance(outcome, Failed)
        assert outcome.retryable
        await until(lambda: not alive(worker.pid), "the worker is gone")
        assert isinstance(await compile_(pool), Compiled)


async def test_what_a_dead_workers_compile_spawned_is_ended_too(tmp_path: Path) -> None:
    async with local_pool(tmp_path / "scratch") as pool:
        outcome = await compile_(pool, ["child", str(tmp_path / "child")], ["die"])
        assert isinstance(outcome, Failed)
        await until(lambda: not alive(int((tmp_path / "child").read_text())), "the child is gone")


async def test_an_endless_compile_is_ended_with_all_that_it_spawned(tmp_path: Path) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path / "scratch", compile_timeout=1.0, on_failure=recorder) as pool:
        outcome = await compile_(pool, ["child", str(tmp_path / "child")], ["touch", str(tmp_path / "pid")], ["spin"])
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_TIMEOUT, False)
        assert "compile_timeout" in outcome.failure.message
        assert outcome.compile_seconds >= 1.0
        for name in ("pid", "child"):
            await until(lambda name=name: not alive(int((tmp_path / name).read_text())), f"{name} is gone")
        assert isinstance(await compile_(pool), Compiled)
        assert pool.status().crashes == 0
    assert recorder.failures == [WorkerFailure.TIMEOUT]


async def test_a_frozen_worker_runs_into_the_time_limit(tmp_path: Path) -> None:
    async with local_pool(tmp_path, compile_timeout=1.0) as pool:
        outcome = await compile_(pool, ["die", int(signal.SIGSTOP)])
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_TIMEOUT
        assert isinstance(await compile_(pool), Compiled)


async def test_a_worker_over_its_memory_is_ended(tmp_path: Path) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path, worker_memory_bytes=200 * 2**20, on_failure=recorder) as pool:
        outcome = await compile_(pool, ["allocate", 300 * 2**20], ["spin"])
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_OUT_OF_MEMORY, True)
        assert "200 MiB" in outcome.failure.message
        assert isinstance(await compile_(pool, ["allocate", 10 * 2**20]), Compiled)
        assert pool.status().crashes == 1
    assert recorder.failures == [WorkerFailure.OOM]


async def test_cancelling_a_running_job_ends_its_worker_and_not_the_pool(tmp_path: Path) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path / "scratch", on_failure=recorder) as pool:
        running = asyncio.create_task(
            compile_(pool, ["child", str(tmp_path / "child")], ["touch", str(tmp_path / "pid")], ["spin"])
        )
        await until((tmp_path / "pid").exists, "it runs")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for name in ("pid", "child"):
            await until(lambda name=name: not alive(int((tmp_path / name).read_text())), f"{name} is gone")
        assert isinstance(await compile_(pool), Compiled)
        assert pool.status().crashes == 0
    assert recorder.failures == [WorkerFailure.CANCELLED]


async def test_cancelling_waiting_jobs_touches_no_worker_and_loses_no_other_waiter(tmp_path: Path) -> None:
    recorder = Recorder()
    gate = tmp_path / "gate"
    async with local_pool(tmp_path / "scratch", on_failure=recorder) as pool:
        jobs = [asyncio.create_task(compile_(pool, ["wait_for", str(gate)])) for _ in range(6)]
        await until(lambda: pool.status().queued == 5, "five wait")
        for waiting in jobs[1::2]:
            waiting.cancel()
        await until(lambda: pool.status().queued == 2, "two wait")
        gate.touch()
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Compiled, asyncio.CancelledError] * 3
    assert recorder.failures == []


async def test_a_job_cancelled_as_it_is_given_a_worker_gives_it_back(tmp_path: Path) -> None:
    async with local_pool(tmp_path) as pool:
        await until(lambda: pool.status().idle == 1, "a warm worker")
        for turns in range(8):
            running = asyncio.create_task(compile_(pool))
            for _ in range(turns):
                await asyncio.sleep(0)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
        assert isinstance(await compile_(pool), Compiled)
        assert pool.status().busy == 0
        assert pool.status().queued == 0


async def test_many_jobs_through_crashes_each_have_one_outcome(tmp_path: Path) -> None:
    steps = [["die"] if number % 4 == 0 else ["sleep", 0.01] for number in range(24)]
    async with local_pool(tmp_path, max_workers=2) as pool:
        outcomes = await asyncio.gather(*(compile_(pool, step) for step in steps))
        assert [isinstance(outcome, Failed) for outcome in outcomes] == [step == ["die"] for step in steps]
        assert pool.status().crashes == 6
        assert (pool.status().busy, pool.status().queued) == (0, 0)
