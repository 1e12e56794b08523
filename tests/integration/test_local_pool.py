"""The local pool with real worker processes that run scripts in place of compiles."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import psutil
import pytest
from support.pools import SCRIPTED, Recorder, alive, children, compile_, describe, job, local_pool, script, until
from workers.scripted import artifact_of

from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker import limits
from inductord.worker.failures import WorkerFailure
from inductord.worker.local_pool import LocalPool, LocalPoolConfig
from inductord.worker.pool import Compiled, Failed, PoolUnavailable

pytestmark = pytest.mark.integration


async def test_a_graph_goes_in_and_its_artifact_comes_back(tmp_path: Path) -> None:
    async with local_pool(tmp_path) as pool:
        calls: list[str] = []
        outcome = await pool.compile(job(["sleep", 0]), lambda: calls.append("started"))
        assert isinstance(outcome, Compiled)
        assert outcome.artifact == artifact_of(script(["sleep", 0]))
        assert outcome.phases.keys() == {"compile"}
        assert calls == ["started"]
        assert (pool.status().idle, pool.status().busy, pool.status().crashes) == (1, 0, 0)


async def test_a_large_artifact_comes_back_whole(tmp_path: Path) -> None:
    size = 32 * 2**20
    async with local_pool(tmp_path, max_artifact_bytes=size) as pool:
        outcome = await compile_(pool, ["size", size])
        assert isinstance(outcome, Compiled)
        assert outcome.artifact == artifact_of(script(["size", size]), size)


async def test_an_artifact_over_the_limit_is_a_failure_and_costs_no_worker(tmp_path: Path) -> None:
    async with local_pool(tmp_path, max_artifact_bytes=1000) as pool:
        await compile_(pool)
        before = {child.pid for child in children()}
        outcome = await compile_(pool, ["size", 1001])
        assert isinstance(outcome, Failed)
        assert (outcome.failure.kind, outcome.retryable) == (FailureKind.FAILURE_KIND_TOO_LARGE, False)
        assert isinstance(await compile_(pool, ["size", 1000]), Compiled)
        assert {child.pid for child in children()} == before


async def test_a_worker_that_grew_too_large_gets_no_further_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path, on_failure=recorder, max_workers=1) as pool:
        first = await describe(pool)
        assert (await describe(pool))["pid"] == first["pid"]
        monkeypatch.setattr(limits, "WORKER_MEMORY_BYTES", 1)
        assert (await describe(pool))["pid"] == first["pid"]
        assert (await describe(pool))["pid"] != first["pid"]
        await until(lambda: not alive(first["pid"]), "the worker that grew too large ends")
        assert pool.status().crashes == 0
    assert recorder.failures == []


async def test_a_worker_starts_with_what_an_earlier_one_prepared(tmp_path: Path) -> None:
    earlier = tmp_path / "prepared" / "inductor" / "ab" / "abc.so"
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"a trial compile")
    async with local_pool(tmp_path) as pool:
        seen = await describe(pool)
        given = Path(seen["env"]["TORCHINDUCTOR_CACHE_DIR"]) / "ab" / "abc.so"
        assert given.read_bytes() == b"a trial compile"
        shutil.rmtree(tmp_path / "prepared")


async def test_a_compile_failure_keeps_its_traceback_and_the_worker(tmp_path: Path) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path, on_failure=recorder) as pool:
        outcome = await compile_(pool, ["fail", "no such op"])
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_COMPILE_ERROR
        assert outcome.failure.message == "no such op"
        assert "Traceback" in outcome.failure.traceback
        assert not outcome.retryable
        assert pool.status().idle == 1
    assert recorder.failures == []


async def test_workers_begin_to_warm_at_start_without_being_waited_for(tmp_path: Path) -> None:
    async with local_pool(tmp_path, max_workers=3, min_warm=2) as pool:
        assert pool.status().starting == 2
        await until(lambda: pool.status().idle == 2, "two warm workers")
        assert pool.status().starting == 0


async def test_workers_grow_with_the_jobs_up_to_the_maximum_and_the_rest_queue(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with local_pool(tmp_path / "scratch", max_workers=2) as pool:
        jobs = [asyncio.create_task(compile_(pool, ["wait_for", str(gate)])) for _ in range(4)]
        await until(lambda: pool.status().busy == 2, "two busy workers")
        status = pool.status()
        assert (status.busy, status.queued, status.starting, status.max_workers) == (2, 2, 0, 2)
        gate.touch()
        assert all(isinstance(outcome, Compiled) for outcome in await asyncio.gather(*jobs))
        assert pool.status().queued == 0


async def test_jobs_are_taken_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    async with local_pool(tmp_path / "scratch", environment={"SCRIPTED_LOG": str(log)}) as pool:
        first = asyncio.create_task(compile_(pool, ["wait_for", str(gate)]))
        await until(lambda: pool.status().busy == 1, "the worker is busy")
        others = []
        for number in range(8):
            others.append(asyncio.create_task(compile_(pool, ["sleep", 0], ["size", number])))
            await until(lambda number=number: pool.status().queued == number + 1, "it queues")
        gate.touch()
        await asyncio.gather(first, *others)
    taken = [json.loads(line)["graph"] for line in log.read_text().splitlines()]
    assert taken[1:] == [script(["sleep", 0], ["size", number]).decode() for number in range(8)]


async def test_threads_are_shared_between_the_jobs_that_run(tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    cpus = limits.this_machine().cpus
    async with local_pool(tmp_path / "scratch", max_workers=2, environment={"SCRIPTED_LOG": str(log)}) as pool:
        jobs = []
        for number in (1, 2):
            jobs.append(asyncio.create_task(compile_(pool, ["wait_for", str(gate)])))
            await until(lambda number=number: pool.status().busy == number, "one more is busy")
            await until(lambda number=number: log.exists() and len(log.read_text().splitlines()) == number, "it began")
        gate.touch()
        await asyncio.gather(*jobs)
        await compile_(pool)
    threads = [json.loads(line)["threads"] for line in log.read_text().splitlines()]
    assert threads == [max(1, cpus), max(1, cpus // 2), max(1, cpus)]


async def test_a_worker_has_an_environment_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("TORCHINDUCTOR_FREEZING", "1")
    async with local_pool(tmp_path, environment={"EXTRA": "yes"}) as pool:
        seen = await describe(pool)
        assert seen["env"]["EXTRA"] == "yes"
        assert not {"RANK", "TORCHINDUCTOR_FREEZING"} & seen["env"].keys()
        assert Path(seen["cwd"]).is_relative_to(tmp_path)
        assert os.getpgid(seen["pid"]) != os.getpgid(0)
        assert os.getsid(seen["pid"]) != os.getsid(0)


async def test_idle_workers_above_the_warm_ones_leave_first_and_then_all(tmp_path: Path) -> None:
    others = set(children())
    async with local_pool(tmp_path, max_workers=2, min_warm=1, idle_seconds=0.5) as pool:
        gate = tmp_path / "gate"
        jobs = [asyncio.create_task(compile_(pool, ["wait_for", str(gate)])) for _ in range(2)]
        await until(lambda: pool.status().busy == 2, "two busy workers")
        gate.touch()
        await asyncio.gather(*jobs)
        gate.unlink()
        seen = []

        def left() -> int:
            if not seen or seen[-1] != pool.status().idle:
                seen.append(pool.status().idle)
            return pool.status().idle

        await until(lambda: left() == 0, "nobody is left")
        assert seen == [2, 1, 0]
        await until(lambda: others.issuperset(children()), "the processes have ended")
        # It comes back on demand.
        assert isinstance(await compile_(pool), Compiled)
        assert pool.status().crashes == 0


async def test_a_worker_that_dies_idle_is_replaced_before_anybody_notices(tmp_path: Path) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path, on_failure=recorder) as pool:
        pid = (await describe(pool))["pid"]
        psutil.Process(pid).kill()
        await until(lambda: pool.status().crashes == 1, "the death is seen")
        await until(lambda: pool.status().idle == 1, "another is warm")
        assert (await describe(pool))["pid"] != pid
    assert recorder.failures == [WorkerFailure.DIED]


async def test_what_compiles_print_is_no_protocol_and_does_not_fill_anything(tmp_path: Path) -> None:
    async with local_pool(tmp_path) as pool:
        assert isinstance(await compile_(pool, ["print", "x" * 1000, 2000]), Compiled)
        outcome = await compile_(pool, ["print", "y" * 1000, 200], ["print", "the last words"], ["exit", 7])
        assert isinstance(outcome, Failed)
        assert "exited with status 7" in outcome.failure.message
        assert outcome.failure.traceback.endswith("the last words")
        assert len(outcome.failure.traceback) <= 16 * 1024


async def test_a_worker_that_aborts_says_where(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with local_pool(tmp_path) as pool:
        outcome = await compile_(pool, ["die", signal.SIGABRT])
    assert isinstance(outcome, Failed)
    assert "SIGABRT" in outcome.failure.message
    # The stack of the thread, which ends in the step.
    assert "in run_steps" in outcome.failure.traceback
    assert "in run_steps" in caplog.text


async def test_stop_ends_idle_busy_and_starting_workers_and_answers_every_job(tmp_path: Path) -> None:
    async with local_pool(tmp_path, max_workers=2) as pool:
        running = asyncio.create_task(compile_(pool, ["litter"], ["child", str(tmp_path / "child")], ["spin"]))
        await until((tmp_path / "child").exists, "it runs")
        jobs = [running, *(asyncio.create_task(compile_(pool, ["spin"])) for _ in range(3))]
        await until(lambda: pool.status().queued > 0, "others wait")
        await pool.stop(2.0)
        for outcome in await asyncio.gather(*jobs):
            assert isinstance(outcome, Failed)
            assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE
        assert not alive(int((tmp_path / "child").read_text()))
        status = pool.status()
        assert (status.starting, status.idle, status.busy, status.queued, status.crashes) == (0, 0, 0, 0, 0)
        (tmp_path / "child").unlink()
        await pool.stop(2.0)
        outcome = await compile_(pool)
        assert isinstance(outcome, Failed)


async def test_stop_right_after_start(tmp_path: Path) -> None:
    async with local_pool(tmp_path, min_warm=1):
        pass


async def test_stop_ends_a_frozen_worker(tmp_path: Path) -> None:
    async with local_pool(tmp_path) as pool:
        pid = (await describe(pool))["pid"]
        psutil.Process(pid).suspend()
        psutil.Process(pid).parent().suspend()
        await pool.stop(0.2)
        await until(lambda: not alive(pid), "the worker is gone")


async def test_a_scratch_that_cannot_be_made_is_said_at_start(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    pool = LocalPool(LocalPoolConfig(scratch=blocked / "below", max_artifact_bytes=1, command=SCRIPTED))
    with pytest.raises(PoolUnavailable, match="below"):
        await pool.start()
    await pool.stop(1.0)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no torch here')"), "no torch here"),
        (("/nowhere/python",), "/nowhere/python cannot be run"),
        ((sys.executable, "-c", "import os, sys; os.write(int(sys.argv[2]), b'\\xff' * 9); input()"), "over the limit"),
    ],
)
async def test_workers_that_cannot_be_started_are_said_to_be_so(
    tmp_path: Path, command: tuple[str, ...], told: str
) -> None:
    recorder = Recorder()
    async with local_pool(tmp_path, command=command, on_failure=recorder) as pool:
        outcome = await compile_(pool)
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE
        assert told in outcome.failure.message
        assert told in pool.status().note
        # Nobody is kept waiting for the next try.
        assert isinstance(await compile_(pool), Failed)
    assert recorder.failures == [WorkerFailure.START_FAILED] * 3


async def test_the_pool_mends_itself_when_workers_can_be_started_again(tmp_path: Path) -> None:
    needed = tmp_path / "needed"
    async with local_pool(tmp_path / "scratch", environment={"SCRIPTED_START_NEEDS": str(needed)}) as pool:
        outcome = await compile_(pool)
        assert isinstance(outcome, Failed)
        assert str(needed) in outcome.failure.message
        needed.touch()
        await until(lambda: pool.status().idle == 1, "a worker is started")
        assert isinstance(await compile_(pool), Compiled)
        assert pool.status().note == ""
