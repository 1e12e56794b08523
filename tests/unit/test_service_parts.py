"""The daemon's small parts: chunks, orders, outboxes, memory of graphs, sums by job, idleness, scratch, the table."""

import asyncio
import hashlib
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.timelines import an_order

from inductord.compiler.versions import this_version
from inductord.daemon import jobs, orders
from inductord.daemon.activity import Activity
from inductord.daemon.blobs import CHUNK_BYTES, Incoming, Outgoing, check_header, sha256
from inductord.daemon.errors import InvalidRequest, OverLimit, ServiceError
from inductord.daemon.graphs import GraphBuffer
from inductord.daemon.jobs import JobTable
from inductord.daemon.metrics import table
from inductord.daemon.outbox import Broken, Outbox
from inductord.daemon.scratch import ScratchUnusable, find_scratch, scratch_candidates
from inductord.daemon.service.errors import rejection, status_code
from inductord.v1 import compiler_pb2 as pb
from inductord.worker.singleflight import AskGraph, Fail, RejectReason, Tell

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# Chunks


@given(st.integers(1, 3 * CHUNK_BYTES + 5))
def test_chunks_are_what_protobuf_writes_and_add_up(size: int) -> None:
    data = os.urandom(64) * (size // 64 + 1)
    data = data[:size]
    outgoing = Outgoing(data, hashlib.sha256(data).digest(), 1.0)
    messages = [pb.CompileResponse.FromString(outgoing.chunk(index)) for index in range(len(outgoing))]
    assert b"".join(message.chunk for message in messages) == data
    assert outgoing.chunk(0) == messages[0].SerializeToString()
    assert outgoing.header.size == size


def test_chunks_are_made_once() -> None:
    outgoing = Outgoing(b"x" * 10, b"", 0.0)
    assert outgoing.chunk(0) is outgoing.chunk(0)


def header(data: bytes) -> pb.BlobHeader:
    return pb.BlobHeader(size=len(data), sha256=hashlib.sha256(data).digest())


@pytest.mark.parametrize("size", [10, 1_000_000], ids=["here", "in a thread"])
async def test_a_blob_arrives_whole(size: int) -> None:
    data = os.urandom(size)
    assert await sha256(data) == hashlib.sha256(data).digest()
    incoming = Incoming(header(data))
    incoming.add(data[:7])
    assert not incoming.complete
    incoming.add(data[7:])
    assert incoming.complete
    assert await incoming.finish() == data


async def test_a_damaged_blob_is_refused() -> None:
    incoming = Incoming(header(b"good"))
    incoming.add(b"evil")
    with pytest.raises(InvalidRequest, match="SHA-256"):
        await incoming.finish()


def test_a_header_is_checked_before_any_byte_is_taken() -> None:
    check_header(header(b"x" * 10), 10)
    with pytest.raises(OverLimit, match="max_graph_bytes"):
        check_header(header(b"x" * 11), 10)
    with pytest.raises(InvalidRequest):
        check_header(header(b""), 10)


# Orders


def test_an_order_keeps_what_was_said() -> None:
    message = pb.OpenCompile(
        client=this_version(),
        key="ab" * 32,
        kind=pb.GRAPH_KIND_BACKWARD,
        nodes=5,
        requester=pb.Requester(job="j", rank=3),
        key_parts={"a": "b"},
        needs_device=True,
    )
    order = orders.parse_order(message)
    assert (order.key, order.kind, order.nodes, order.job, order.rank) == (
        message.key,
        pb.GRAPH_KIND_BACKWARD,
        5,
        "j",
        3,
    )
    assert order.key_parts == {"a": "b"}
    assert order.needs_device


def test_a_kind_of_a_later_release_is_taken_as_unspecified() -> None:
    message = pb.OpenCompile.FromString(
        pb.OpenCompile(client=this_version(), key="ab" * 32).SerializeToString() + bytes([4 << 3, 99])
    )
    assert orders.parse_order(message).kind == pb.GRAPH_KIND_UNSPECIFIED


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_times_that_would_spoil_a_sum_are_refused(value: float) -> None:
    orders.check_stats(pb.RankStats(wait_seconds=1e6, saved_seconds=-5.0))
    with pytest.raises(InvalidRequest, match="load_seconds"):
        orders.check_stats(pb.RankStats(load_seconds=value))


# Outboxes


async def test_a_newer_progress_replaces_an_older_one() -> None:
    outbox = Outbox()
    outbox.put(Tell(1, pb.COMPILE_STATE_QUEUED, 3))
    outbox.put(Tell(1, pb.COMPILE_STATE_COMPILING, 0))
    outbox.put(AskGraph(1))
    assert await outbox.get() == AskGraph(1)
    assert await outbox.get() == Tell(1, pb.COMPILE_STATE_COMPILING, 0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(outbox.get(), 0.01)


async def test_an_ending_comes_first_and_nothing_follows_it() -> None:
    outbox = Outbox()
    outbox.put(Tell(1, pb.COMPILE_STATE_QUEUED, 3))
    ending = Fail(1, pb.CompileFailure())
    outbox.put(ending)
    outbox.put(Broken(RuntimeError()))
    outbox.put(AskGraph(1))
    assert await outbox.get() is ending
    assert await outbox.get() is ending


async def test_who_waits_is_woken() -> None:
    outbox = Outbox()
    waiting = asyncio.create_task(outbox.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    outbox.put(AskGraph(7))
    assert await waiting == AskGraph(7)


# Memory of graphs


def test_uploads_and_held_graphs_share_one_bound() -> None:
    buffer = GraphBuffer(10)
    with buffer.reserve(6), pytest.raises(OverLimit, match="max_pending_bytes"), buffer.reserve(5):
        pass
    assert buffer.pending_bytes == 0
    with buffer.reserve(6):
        buffer.put("a", b"x" * 6)
    assert (buffer.pending_bytes, buffer.get("a")) == (6, b"x" * 6)
    with pytest.raises(OverLimit), buffer.reserve(5):
        pass
    buffer.forget("a")
    buffer.forget("a")
    assert buffer.pending_bytes == 0


# Sums by job


def who(job: str = "j", rank: int = 0, pid: int = 1, world_size: int = 2) -> pb.Requester:
    return pb.Requester(job=job, rank=rank, pid=pid, world_size=world_size)


def test_only_what_is_new_in_a_report_counts() -> None:
    table = JobTable(Clock())
    first = table.report(who(), pb.RankStats(hits=2, load_seconds=1.0, fallbacks={"daemon_busy": 1}))
    again = table.report(who(), pb.RankStats(hits=5, load_seconds=1.5, fallbacks={"daemon_busy": 1, "disabled": 2}))
    late = table.report(who(), pb.RankStats(hits=3))
    assert (first.hits, first.load_seconds, dict(first.fallbacks)) == (2, 1.0, {"daemon_busy": 1})
    assert (again.hits, again.load_seconds, dict(again.fallbacks)) == (3, 0.5, {"disabled": 2})
    assert (late.hits, dict(late.fallbacks)) == (0, {})


def test_a_restarted_rank_counts_from_zero() -> None:
    table = JobTable(Clock())
    table.report(who(pid=1), pb.RankStats(hits=2))
    assert table.report(who(pid=2), pb.RankStats(hits=1)).hits == 1
    summary = table.summary("j")
    assert summary is not None
    assert (summary.ranks, summary.sum.hits) == (1, 3)


def test_unknown_reasons_are_one() -> None:
    table = JobTable(Clock())
    new = table.report(who(), pb.RankStats(fallbacks={"x": 1, "y": 2, "disabled": 4}))
    assert dict(new.fallbacks) == {"other": 3, "disabled": 4}


def test_graphs_are_distinct_over_ranks_and_ways_to_learn_of_them() -> None:
    table = JobTable(Clock())
    for rank in range(3):
        table.asked(who(rank=rank), "ab" * 32)
    table.report(who(), pb.RankStats(keys=["AB" * 32, "cd" * 32, "nonsense"]))
    summary = table.summary("j")
    assert summary is not None
    assert (summary.graphs, summary.ranks) == (2, 3)


def test_jobs_ranks_and_keys_are_bounded() -> None:
    clock = Clock()
    table = JobTable(clock)
    for number in range(jobs.MAX_JOBS + 5):
        clock.now += 1
        table.compiling(an_order(job=f"job{number}"))
    assert len(table.summaries()) == jobs.MAX_JOBS
    assert table.summary("job0") is None
    assert table.summaries()[0].job == f"job{jobs.MAX_JOBS + 4}"
    for number in range(jobs.MAX_KEYS + 5):
        table.asked(who(rank=number), f"{number:064x}")
    summary = table.summary("j")
    assert summary is not None
    assert (summary.graphs, summary.ranks) == (jobs.MAX_KEYS, jobs.MAX_RANKS)


def test_requests_without_a_job_are_no_job() -> None:
    table = JobTable(Clock())
    table.asked(who(job=""), "ab" * 32)
    table.compiling(an_order(job=""))
    table.report(who(job=""), pb.RankStats(hits=1))
    assert table.summaries() == []


# Idleness


def test_only_use_counts_as_activity() -> None:
    clock = Clock()
    activity = Activity(clock)
    clock.now += 5
    with activity.during("grpc.health.v1.Health"), activity.during("inductord.v1.AdminService"):
        assert activity.idle_seconds() == 5
    with activity.during("inductord.v1.CompilerService"):
        clock.now += 5
        assert activity.idle_seconds() == 0
    clock.now += 2
    assert activity.idle_seconds() == 2


# Scratch


def test_the_first_folder_that_allows_execution_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    good = tmp_path / "made" / "when needed"
    assert find_scratch([tmp_path / "file" / "below", good]) == good
    assert list(good.iterdir()) == []


def test_when_none_does_all_are_named_with_the_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ScratchUnusable) as caught:
        find_scratch([tmp_path / "file" / "a", tmp_path / "file" / "b"])
    for part in (str(tmp_path / "file" / "a"), str(tmp_path / "file" / "b"), "INDUCTORD_SCRATCH"):
        assert part in str(caught.value)


def test_a_configured_folder_has_no_substitute(tmp_path: Path) -> None:
    assert scratch_candidates(tmp_path, tmp_path / "store") == [tmp_path]
    assert len(scratch_candidates(None, tmp_path / "store")) > 1


# Errors and the table


def test_every_refusal_has_a_status() -> None:
    for error in ServiceError.__subclasses__():
        assert status_code(error("x"))
    for reason in RejectReason:
        assert str(rejection(reason))


def test_metrics_are_named_as_prometheus_wants() -> None:
    for family in table.families():
        assert family.documentation.endswith(".")
        assert family.name.startswith(("inductord_", "grpc_server_"))
        assert not family.name.endswith(("_ms", "_milliseconds", "_mb", "_kb", "_total"))
