"""The registry of a cluster and a daemon's side of it, in one process: no Ray, no socket."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable

import pytest
from support.pools import until
from support.registries import LIMITS, Clock, Line, Workers, new_registry, worker_died

from inductord.v1.bridge_pb2 import ORIGIN_COMPILED, ORIGIN_FOUND, ORIGIN_JOINED
from inductord.v1.compiler_pb2 import FailureKind, Toolchain
from inductord.worker.pool import Compiled, Failed, Job, Outcome, Priority, failed
from inductord.worker.registry import Registry
from inductord.worker.registry_client import Patience, RegistryClient, Unreachable
from inductord.worker.registry_messages import Ask, Batch, Done, Event, Failure, Give, Leave, SessionUnknown, WantGraph

pytestmark = pytest.mark.unit

KEY = "a" * 64
# Waits for news shortly, and for a registry that is away as long as a busy machine may take.
PATIENT = Patience(poll=0.05, reattach=60.0, again=0.02)
HASTY = dataclasses.replace(PATIENT, reattach=0.5)


@pytest.fixture
async def workers() -> Workers:
    return Workers()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def registry(workers: Workers, clock: Clock) -> Registry:
    return new_registry(workers, clock)


@contextlib.asynccontextmanager
async def client(line: Line, patience: Patience = PATIENT) -> AsyncIterator[RegistryClient]:
    one = RegistryClient(line, patience)
    await one.start()
    try:
        yield one
    finally:
        await one.close()


def job(key: str = KEY, priority: Priority = Priority.WAITED_FOR) -> Job:
    return Job(key, b"graph of " + key.encode(), Toolchain(torch="2"), priority)


def ask(ticket: int, key: str = KEY) -> Ask:
    return Ask(ticket, key, b"")


def nothing() -> None:
    pass


def artifact(outcome: Outcome) -> bytes:
    assert isinstance(outcome, Compiled), outcome
    assert outcome.place is not None
    assert isinstance(outcome.place.at, memoryview)
    return bytes(outcome.place.at)


async def news(registry: Registry, session: str, have: int = 0) -> list[Event]:
    batch: Batch = await registry.poll(session, have, 0.01)
    return list(batch.events)


# One key, one compile


async def test_many_daemons_that_ask_for_the_same_keys_cause_one_compile_each(
    registry: Registry, workers: Workers
) -> None:
    keys = [f"{number:064x}" for number in range(5)]
    began: list[str] = []
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(Line(registry))) for _ in range(8)]
        outcomes = await asyncio.gather(
            *(one.compile(job(key), lambda key=key: began.append(key)) for one in clients for key in keys)  # type: ignore[misc]
        )
        later = await clients[0].compile(job(keys[0]), nothing)
    assert [artifact(outcome) for outcome in outcomes] == [f"artifact of {key}".encode() for key in keys] * 8
    assert sorted(each.key for each in workers.jobs) == keys
    # Each compile is told to one daemon, so that their counts add up.
    assert sorted(began) == keys
    origins = [outcome.origin for outcome in outcomes if isinstance(outcome, Compiled)]
    assert origins.count(ORIGIN_COMPILED) == 5
    assert origins.count(ORIGIN_JOINED) + origins.count(ORIGIN_FOUND) == 35
    assert isinstance(later, Compiled)
    assert later.origin == ORIGIN_FOUND
    counts = registry.status().cluster
    assert (counts.compiles, counts.led, counts.joined + counts.found) == (5, 5, 36)
    assert (counts.flights, counts.waiting) == (0, 0)


async def test_graphs_go_to_the_workers_as_they_were_given(registry: Registry, workers: Workers) -> None:
    async with client(Line(registry)) as one:
        await one.compile(dataclasses.replace(job(priority=Priority.SPECULATIVE), needs_device=True), nothing)
    (given,) = workers.jobs
    assert given.place == b"graph of " + KEY.encode()
    assert (given.toolchain.torch, given.priority, given.needs_device) == ("2", Priority.SPECULATIVE, True)


async def test_tenants_with_the_same_key_never_meet(registry: Registry, workers: Workers) -> None:
    async with client(Line(registry)) as one:
        for tenant in ("", "red", "blue", "red"):
            assert artifact(await one.compile(dataclasses.replace(job(), tenant=tenant), nothing))
    assert [(each.tenant, each.key) for each in workers.jobs] == [("", KEY), ("red", KEY), ("blue", KEY)]


async def test_a_daemon_that_waits_lifts_what_another_asked_for_ahead_of_time(
    registry: Registry, workers: Workers
) -> None:
    workers.go.clear()
    async with client(Line(registry)) as one, client(Line(registry)) as other:
        ahead = asyncio.create_task(one.compile(job(priority=Priority.SPECULATIVE), nothing))
        await until(lambda: len(workers.jobs) == 1, "it is compiled")
        assert workers.promoted == []
        waits = asyncio.create_task(other.compile(job(), nothing))
        await until(lambda: workers.promoted == [KEY], "it is lifted")
        workers.go.set()
        await asyncio.gather(ahead, waits)


async def test_one_that_comes_to_wait_for_its_own_speculative_job_lifts_it(
    registry: Registry, workers: Workers
) -> None:
    workers.go.clear()
    async with client(Line(registry)) as one:
        ahead = asyncio.create_task(one.compile(job(priority=Priority.SPECULATIVE), nothing))
        await until(lambda: len(workers.jobs) == 1, "it is compiled")
        one.promote(KEY)
        await until(lambda: workers.promoted == [KEY], "it is lifted")
        workers.go.set()
        await ahead


# Failures


async def test_a_lost_worker_costs_one_retry_and_nobody_hears_of_it(registry: Registry, workers: Workers) -> None:
    workers.endings = [worker_died()]
    async with client(Line(registry)) as one:
        assert artifact(await one.compile(job(), nothing))
    assert (registry.status().cluster.compiles, registry.status().cluster.retries) == (2, 1)


async def test_a_failure_reaches_every_daemon_and_is_remembered(registry: Registry, workers: Workers) -> None:
    workers.endings = [failed(FailureKind.FAILURE_KIND_COMPILE_ERROR, "no such lowering", traceback="Traceback")]
    async with client(Line(registry)) as one, client(Line(registry)) as other:
        outcomes = [*await asyncio.gather(*(each.compile(job(), nothing) for each in (one, other, one)))]
        outcomes.append(await other.compile(job(), nothing))
    for outcome in outcomes:
        assert isinstance(outcome, Failed)
        assert (outcome.failure.message, outcome.failure.traceback) == ("no such lowering", "Traceback")
    assert len(workers.jobs) == 1
    assert registry.status().cluster.failed == 4


async def test_a_registry_that_is_full_says_so_as_a_pool_that_cannot_be_had(workers: Workers, clock: Clock) -> None:
    flights = dataclasses.replace(LIMITS.flights, max_keys=1)
    workers.go.clear()
    async with client(Line(new_registry(workers, clock, dataclasses.replace(LIMITS, flights=flights)))) as one:
        first = asyncio.create_task(one.compile(job(), nothing))
        await until(lambda: len(workers.jobs) == 1, "it is compiled")
        outcome = await one.compile(job("b" * 64), nothing)
        workers.go.set()
        assert artifact(await first)
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE
    assert "queue_full" in outcome.failure.message


# Daemons that go away


async def test_a_leader_that_leaves_before_it_gave_the_graph_is_replaced(registry: Registry, workers: Workers) -> None:
    for session in ("one", "other"):
        registry.hello(session)
        registry.submit(session, [ask(7)])
    assert await news(registry, "one") == [WantGraph(7)]
    assert await news(registry, "other") == []
    registry.submit("one", [Leave(7)])
    assert await news(registry, "other") == [WantGraph(7)]
    registry.submit("other", [Give(7, b"graph")])
    await until(lambda: registry.status().cluster.led == 1, "it is compiled")
    assert len(workers.jobs) == 1


@pytest.mark.parametrize("given", [False, True])
async def test_a_daemon_that_falls_silent_holds_nobody_up(
    registry: Registry, workers: Workers, clock: Clock, given: bool
) -> None:
    workers.go.clear()
    registry.hello("silent")
    registry.submit("silent", [ask(1)])
    if given:
        registry.submit("silent", [Give(1, b"graph")])
    async with client(Line(registry)) as one:
        waiting = asyncio.create_task(one.compile(job(), nothing))
        await until(lambda: registry.status().cluster.waiting == 2, "both wait")
        clock.now += LIMITS.lease / 2
        registry.expire()
        assert registry.status().cluster.silent_daemons == 0
        await asyncio.sleep(2 * PATIENT.poll)  # The other one speaks.
        clock.now += LIMITS.lease / 2 + 1
        registry.expire()
        workers.go.set()
        assert artifact(await waiting)
    assert len(workers.jobs) == 1
    assert registry.status().cluster.silent_daemons == 1
    with pytest.raises(SessionUnknown):
        await news(registry, "silent")


async def test_a_job_that_is_cancelled_is_not_wanted_any_more(registry: Registry, workers: Workers) -> None:
    workers.go.clear()
    async with client(Line(registry)) as one:
        running = asyncio.create_task(one.compile(job(), nothing))
        await until(lambda: len(workers.jobs) == 1, "it is compiled")
        running.cancel()
        await until(lambda: registry.status().cluster.waiting == 0, "nobody waits")
        # It goes on: whoever asks next is served by it.
        assert registry.status().cluster.flights == 1
        workers.go.set()
        outcome = await one.compile(job(), nothing)
    assert artifact(outcome)
    assert len(workers.jobs) == 1


# Registries and ways to them that go away


async def test_news_that_got_lost_is_told_again(registry: Registry, workers: Workers) -> None:
    line = Line(registry, lose_polls=2)
    async with client(line) as one:
        assert artifact(await one.compile(job(), nothing))
    assert line.lose_polls == 0
    assert len(workers.jobs) == 1


async def test_a_registry_that_starts_anew_loses_no_waiter(registry: Registry, workers: Workers, clock: Clock) -> None:
    workers.go.clear()
    lines = [Line(registry) for _ in range(3)]
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(line)) for line in lines]
        waiting = [asyncio.create_task(one.compile(job(), nothing)) for one in clients]
        await until(lambda: registry.status().cluster.waiting == 3 and len(workers.jobs) == 1, "all wait for a compile")
        others = Workers()
        restarted = new_registry(others, clock)
        for line in lines:
            line.registry = restarted
        assert {artifact(outcome) for outcome in await asyncio.gather(*waiting)} == {b"artifact of " + KEY.encode()}
        await until(lambda: all(one.status().cluster.registry == restarted.incarnation for one in clients), "all know")
        assert [one.status().cluster.reattached for one in clients] == [1, 1, 1]
    # What the first one had begun is done once more, and once only.
    assert (len(workers.jobs), len(others.jobs)) == (1, 1)
    counts = restarted.status().cluster
    assert (counts.led, counts.joined + counts.found) == (1, 2)


async def test_a_way_that_stays_cut_is_given_up_in_bounded_time(registry: Registry, workers: Workers) -> None:
    workers.go.clear()
    line = Line(registry)
    async with client(line, HASTY) as one:
        waiting = asyncio.create_task(one.compile(job(), nothing))
        await until(lambda: len(workers.jobs) == 1, "it is compiled")
        line.cut = True
        outcomes = [await waiting, await one.compile(job("b" * 64), nothing)]
        assert "cut" in await one.lost
    for outcome in outcomes:
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE


async def test_a_short_cut_is_survived(registry: Registry, workers: Workers) -> None:
    workers.go.clear()
    line = Line(registry)
    async with client(line) as one:
        waiting = asyncio.create_task(one.compile(job(), nothing))
        await until(lambda: len(workers.jobs) == 1, "it is compiled")
        line.cut = True
        await asyncio.sleep(5 * PATIENT.poll)
        line.cut = False
        workers.go.set()
        assert artifact(await waiting)
    assert len(workers.jobs) == 1


async def test_no_registry_at_the_start_is_said(registry: Registry) -> None:
    with pytest.raises(Unreachable, match="cut"):
        await RegistryClient(Line(registry, cut=True), HASTY).start()


async def test_a_defect_of_the_way_leaves_nobody_waiting(registry: Registry, workers: Workers) -> None:
    workers.go.clear()
    line = Line(registry)

    async def broken(*_: object) -> Batch:
        raise TypeError("a defect")

    async with client(line) as one:
        waiting = asyncio.create_task(one.compile(job(), nothing))
        await until(lambda: len(workers.jobs) == 1, "it is compiled")
        line.poll = broken  # type: ignore[method-assign]
        outcome = await waiting
    assert isinstance(outcome, Failed)
    assert "a defect" in outcome.failure.message


# Artifacts


async def test_an_artifact_that_is_gone_is_compiled_again_once_for_all(registry: Registry, workers: Workers) -> None:
    lines = [Line(registry) for _ in range(3)]
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(line)) for line in lines]
        await clients[0].compile(job(), nothing)
        registry.hello("look")
        registry.submit("look", [ask(1)])
        (done,) = await news(registry, "look")
        assert isinstance(done, Done)
        for line in lines:
            line.gone.add(done.produced.name)
        outcomes = await asyncio.gather(*(one.compile(job(), nothing) for one in clients))
    assert {artifact(outcome) for outcome in outcomes} == {b"artifact of " + KEY.encode()}
    assert len(workers.jobs) == 2
    assert registry.status().cluster.lost_artifacts == 1


async def test_an_artifact_that_is_lost_again_and_again_is_left_to_the_node(registry: Registry) -> None:
    line = Line(registry)

    class Everything(set[str]):
        def __contains__(self, name: object) -> bool:
            return True

    line.gone = Everything()
    async with client(line) as one:
        outcome = await one.compile(job(), nothing)
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE


@pytest.mark.parametrize(("limit", "kept"), [({"kept_artifacts": 2}, 2), ({"kept_bytes": 80 * 3}, 3)])
async def test_what_is_kept_is_bounded_and_the_least_recently_asked_for_goes_first(
    workers: Workers, clock: Clock, limit: dict[str, int], kept: int
) -> None:
    registry = new_registry(workers, clock, dataclasses.replace(LIMITS, **limit))  # type: ignore[arg-type]
    keys = [f"{number:064x}" for number in range(5)]
    async with client(Line(registry)) as one:
        for key in keys:
            await one.compile(job(key), nothing)
            await one.compile(job(keys[0]), nothing)
        counts = registry.status().cluster
        assert counts.kept_artifacts == kept
        assert counts.kept_bytes <= kept * 80
        compiled = len(workers.jobs)
        for key in (keys[0], keys[-1]):
            outcome = await one.compile(job(key), nothing)
            assert isinstance(outcome, Compiled)
            assert outcome.origin == ORIGIN_FOUND
        assert len(workers.jobs) == compiled


async def test_events_cross_on_their_way(registry: Registry, workers: Workers) -> None:
    """Requests about tickets that are gone, given twice or never known change nothing."""
    registry.hello("one")
    registry.submit("one", [ask(1), ask(1), Give(2, b"x"), Leave(3), Give(1, b"graph"), Give(1, b"again")])
    await until(lambda: registry.status().cluster.led == 1, "it is compiled")
    registry.submit("one", [Leave(1), Give(1, b"late")])
    events = await news(registry, "one")
    assert [type(event).__name__ for event in events] == ["WantGraph", "Started", "Done"]
    assert not any(isinstance(event, Failure) for event in events)
    assert await news(registry, "one", 3) == []
    assert [each.place for each in workers.jobs] == [b"graph"]


async def test_a_defect_of_the_workers_is_a_failure_and_no_hang(registry: Registry, workers: Workers) -> None:
    async def broken(job: Job, started: Callable[[], None]) -> Outcome:
        raise ZeroDivisionError

    workers.compile = broken  # type: ignore[method-assign]
    async with client(Line(registry)) as one:
        outcome = await one.compile(job(), nothing)
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind == FailureKind.FAILURE_KIND_POOL_UNAVAILABLE
