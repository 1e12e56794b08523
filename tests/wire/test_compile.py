"""The Compile stream against a real daemon: hit, join, lead, hand over, fail."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.daemon import DaemonProcess
from support.pools import until
from support.rank import RankStream, key_of, rank

from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire


def graph(*steps: list[Any]) -> bytes:
    """A script for the worker, as compact JSON."""
    return json.dumps(steps).encode()


def compiled(log: Path) -> int:
    """How many jobs the workers really began."""
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def worker_log(tmp_path: Path) -> Path:
    return tmp_path / "workers.jsonl"


@pytest.fixture
def logged(start_daemon: Callable[..., DaemonProcess], worker_log: Path) -> DaemonProcess:
    """A daemon whose workers log their jobs."""
    return start_daemon(environment={"SCRIPTED_LOG": str(worker_log)})


async def test_the_first_leads_and_the_second_hits(logged: DaemonProcess, worker_log: Path) -> None:
    async with rank(logged.address) as one:
        first = await one.compile(graph(["size", 3_000_000]))
        second = await one.fetch(key_of(graph(["size", 3_000_000])))
    assert (first.served, second.served) == (pb.SERVED_LED, pb.SERVED_HIT)
    assert first.asked == 1
    assert len(first.artifact) == 3_000_000
    assert second.artifact == first.artifact
    assert compiled(worker_log) == 1
    totals = logged.status().totals
    assert (totals.requests, totals.led, totals.hits, totals.compiles) == (2, 1, 1, 1)


async def test_a_rank_that_comes_alone_is_served(daemon: DaemonProcess) -> None:
    """Of a job of eight: nobody waits for the other seven."""
    alone = graph(["size", 10])
    async with rank(daemon.address) as ranks:
        third = pb.Requester(job="of eight", rank=3, world_size=8, pid=1)
        led = await ranks.compile(alone, requester=third)
        hit = await ranks.fetch(key_of(alone), requester=third)
    assert (led.served, hit.served) == (pb.SERVED_LED, pb.SERVED_HIT)


async def test_all_who_come_meanwhile_join_one_compile(logged: DaemonProcess, worker_log: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = graph(["wait_for", str(go)], ["size", 2_500_000])
    async with rank(logged.address) as leader:
        leading = await leader.open(key_of(script))
        await leading.until("send_graph")
        await leading.upload(script)
        await leading.until_state(pb.COMPILE_STATE_COMPILING)
        joining = [await leader.open(key_of(script)) for _ in range(16)]
        for stream in joining:
            await stream.until_state(pb.COMPILE_STATE_COMPILING)
        go.touch()
        led = await leading.finish()
        joined = await asyncio.gather(*(stream.finish() for stream in joining))
    assert led.served == pb.SERVED_LED
    assert {answer.served for answer in joined} == {pb.SERVED_JOINED}
    assert {answer.artifact for answer in joined} == {led.artifact}
    assert compiled(worker_log) == 1


async def test_a_joiner_takes_over_when_the_leader_is_cancelled_during_upload(
    logged: DaemonProcess, worker_log: Path
) -> None:
    script = graph(["size", 2_000_000])
    async with rank(logged.address) as one, rank(logged.address) as other:
        leading = await one.open(key_of(script))
        await leading.until("send_graph")
        await leading.header(script)
        joining = await other.open(key_of(script))
        await joining.until_state(pb.COMPILE_STATE_UPLOADING)
        leading.cancel()
        answer = await joining.finish(script)
    assert answer.asked == 1
    assert answer.served == pb.SERVED_LED
    assert compiled(worker_log) == 1


async def test_the_compile_goes_on_when_its_leader_is_cancelled(
    logged: DaemonProcess, worker_log: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = graph(["wait_for", str(go)])
    async with rank(logged.address) as one, rank(logged.address) as other:
        leading = await one.open(key_of(script))
        await leading.until("send_graph")
        await leading.upload(script)
        await leading.until_state(pb.COMPILE_STATE_COMPILING)
        joining = await other.open(key_of(script))
        await joining.until_state(pb.COMPILE_STATE_COMPILING)
        leading.cancel()
        await until(lambda: logged.status().compiles[0].waiters == 1, "the leader is gone")
        go.touch()
        answer = await joining.finish()
    assert (answer.asked, answer.failure) == (0, None)
    assert answer.artifact
    assert compiled(worker_log) == 1


async def test_a_running_compile_that_nobody_waits_for_serves_the_next(
    logged: DaemonProcess, worker_log: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = graph(["wait_for", str(go)])
    async with rank(logged.address) as one:
        leading = await one.open(key_of(script))
        await leading.until("send_graph")
        await leading.upload(script)
        await leading.until_state(pb.COMPILE_STATE_COMPILING)
        leading.cancel()
        await until(lambda: logged.status().compiles[0].waiters == 0, "the leader is gone")
        go.touch()
        answer = await one.fetch(key_of(script))
    assert answer.artifact
    assert compiled(worker_log) == 1


async def test_a_queued_compile_that_nobody_waits_for_is_dropped(
    start_daemon: Callable[..., DaemonProcess], worker_log: Path, tmp_path: Path
) -> None:
    daemon = start_daemon(max_workers=1, environment={"SCRIPTED_LOG": str(worker_log)})
    go = tmp_path / "go"
    busy, dropped = graph(["wait_for", str(go)]), graph(["size", 10])
    async with rank(daemon.address) as one:
        first = await one.open(key_of(busy))
        await first.until("send_graph")
        await first.upload(busy)
        await first.until_state(pb.COMPILE_STATE_COMPILING)
        second = await one.open(key_of(dropped))
        await second.until("send_graph")
        await second.upload(dropped)
        await second.until_state(pb.COMPILE_STATE_QUEUED)
        second.cancel()
        await until(lambda: len(daemon.status().compiles) == 1, "the queued one is dropped")
        assert daemon.status().pool.queued == 0
        go.touch()
        await first.finish()
    assert compiled(worker_log) == 1


async def test_what_ranks_wait_for_goes_before_what_nobody_waits_for(
    start_daemon: Callable[..., DaemonProcess], worker_log: Path, tmp_path: Path
) -> None:
    daemon = start_daemon(max_workers=1, environment={"SCRIPTED_LOG": str(worker_log)})
    busy, *ahead, waited = graph(["wait_for", str(tmp_path / "go")]), *(graph(["size", n]) for n in (1, 2, 3, 4))
    async with rank(daemon.address) as one, rank(daemon.address) as other:

        async def submit(script: bytes, queued: int, *, speculative: bool) -> RankStream:
            stream = await one.open(key_of(script), speculative=speculative)
            await stream.until("send_graph")
            await stream.upload(script)
            await until(lambda: daemon.status().pool.queued == queued, "it is queued")
            return stream

        streams = [await submit(busy, 0, speculative=False)]
        await streams[0].until_state(pb.COMPILE_STATE_COMPILING)
        streams += [await submit(script, number, speculative=True) for number, script in enumerate(ahead, 1)]
        streams.append(await submit(waited, 4, speculative=False))
        # A rank comes to wait for the last of those that were submitted ahead of time.
        streams.append(await other.open(key_of(ahead[-1])))
        await streams[-1].until("progress")
        (tmp_path / "go").touch()
        await asyncio.gather(*(stream.finish() for stream in streams))
    order = [json.loads(line)["graph"].encode() for line in worker_log.read_text().splitlines()]
    assert order == [busy, ahead[2], waited, ahead[0], ahead[1]]


async def test_a_failure_reaches_everyone_and_is_remembered(
    logged: DaemonProcess, worker_log: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = graph(["wait_for", str(go)], ["fail", "no such lowering"])
    async with rank(logged.address) as one:
        leading = await one.open(key_of(script))
        await leading.until("send_graph")
        await leading.upload(script)
        joining = [await one.open(key_of(script)) for _ in range(3)]
        for stream in joining:
            await stream.until("progress")
        go.touch()
        answers = [await leading.finish(), *[await stream.finish() for stream in joining]]
        later = await one.fetch(key_of(script))
        states = await one.stub.Lookup(pb.LookupRequest(keys=[key_of(script)]))
    for answer in answers:
        assert answer.failure is not None
        assert answer.failure.kind == pb.FAILURE_KIND_COMPILE_ERROR
        assert answer.failure.message == "no such lowering"
        assert "Traceback" in answer.failure.traceback
        assert not answer.failure.remembered
    assert later.failure is not None
    assert later.failure.remembered
    assert "Traceback" in later.failure.traceback
    assert list(states.states) == [pb.KEY_STATE_FAILED]
    assert compiled(worker_log) == 1
    assert logged.status().store.entries == 0


async def test_a_worker_that_dies_costs_one_retry(logged: DaemonProcess, worker_log: Path, tmp_path: Path) -> None:
    # The first try leaves its mark and dies; the second finds the mark.
    mark = tmp_path / "mark"
    script = graph(["touch", str(mark)], ["die"])
    async with rank(logged.address) as one:
        answer = await one.compile(script)
        assert answer.failure is not None
        assert answer.failure.kind == pb.FAILURE_KIND_WORKER_DIED
        assert compiled(worker_log) == 2
        after = await one.compile(graph(["size", 10]))
    assert after.artifact


async def test_a_leader_that_cannot_give_the_graph_is_passed_over(logged: DaemonProcess, worker_log: Path) -> None:
    script = graph(["size", 10])
    async with rank(logged.address) as one:
        leading = await one.open(key_of(script))
        await leading.until("send_graph")
        joining = await one.open(key_of(script))
        await joining.until("progress")
        await leading.say(refused=pb.GraphRefused(message="cannot pickle that"))
        refused, served = await asyncio.gather(leading.finish(), joining.finish(script))
    assert refused.failure is not None
    assert "cannot pickle that" in refused.failure.message
    assert served.served == pb.SERVED_LED
    assert compiled(worker_log) == 1


async def test_who_waits_hears_a_heartbeat(logged: DaemonProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = graph(["wait_for", str(go)])
    async with rank(logged.address) as one:
        leading = await one.open(key_of(script))
        await leading.until("send_graph")
        joining = await one.open(key_of(script))
        while joining.answer.states.count(pb.COMPILE_STATE_UPLOADING) < 3:
            await joining.hear()
        await leading.upload(script)
        while joining.answer.states.count(pb.COMPILE_STATE_COMPILING) < 3:
            await joining.hear()
        go.touch()
        await asyncio.gather(leading.finish(), joining.finish())


async def test_an_artifact_over_the_limit_is_a_failure(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(max_artifact_bytes=100_000)
    async with rank(daemon.address) as one:
        answer = await one.compile(graph(["size", 200_000]))
    assert answer.failure is not None
    assert answer.failure.kind == pb.FAILURE_KIND_TOO_LARGE


async def test_keys_are_looked_up_in_their_order(logged: DaemonProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stored, running = graph(["size", 10]), graph(["wait_for", str(go)])
    async with rank(logged.address) as one:
        await one.compile(stored)
        stream = await one.open(key_of(running))
        await stream.until("send_graph")
        keys = [key_of(running), "0" * 64, key_of(stored)]
        answer = await one.stub.Lookup(pb.LookupRequest(keys=keys))
        await stream.upload(running)
        go.touch()
        await stream.finish()
    assert list(answer.states) == [pb.KEY_STATE_COMPILING, pb.KEY_STATE_ABSENT, pb.KEY_STATE_STORED]


async def test_twenty_ranks_with_ten_graphs_make_ten_compiles(logged: DaemonProcess, worker_log: Path) -> None:
    scripts = [graph(["size", 1000 + index]) for index in range(10)]

    async def one_rank(number: int) -> set[int]:
        async with rank(logged.address) as one:
            order = scripts[number % 10 :] + scripts[: number % 10]
            answers = [await one.compile(script) for script in order]
        assert all(answer.artifact for answer in answers)
        return {answer.served for answer in answers}

    served = await asyncio.gather(*(one_rank(number) for number in range(20)))
    assert set.union(*served) >= {pb.SERVED_LED, pb.SERVED_HIT}
    assert compiled(worker_log) == 10
    totals = logged.status().totals
    assert totals.requests == 200
    assert (totals.led, totals.hits + totals.joined) == (10, 190)


async def test_capabilities_tell_limits_and_versions(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        told = await one.stub.GetCapabilities(pb.GetCapabilitiesRequest())
    assert told.pool == "local"
    assert told.heartbeat_seconds == pytest.approx(0.2)
    assert told.chunk_bytes == 1 << 20
    assert min(told.daemon.protocol, told.daemon.key_format, told.max_graph_bytes, told.max_lookup_keys) > 0


async def test_what_a_rank_reports_is_summed_by_job(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        for number in range(2):
            for hits in (1, 5):
                await one.stub.ReportRank(
                    pb.ReportRankRequest(
                        requester=pb.Requester(job="j", rank=number, world_size=2, pid=number),
                        stats=pb.RankStats(hits=hits, fallbacks={"daemon_absent": hits}, keys=["ab" * 32]),
                    )
                )
    (summary,) = daemon.status().jobs
    assert (summary.ranks, summary.world_size, summary.graphs, summary.sum.hits) == (2, 2, 1, 10)
    assert dict(summary.sum.fallbacks) == {"daemon_absent": 10}
