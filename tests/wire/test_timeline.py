"""A job's timeline from a real daemon: what it saw of the compiles, and what ranks told."""

import json
from pathlib import Path

import grpc
import pytest
from support.daemon import DaemonProcess, wait_until
from support.rank import key_of, rank
from support.timelines import NOW, a_span

from inductord.daemon.client import AdminClient, NotFound
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.timeline_pb2 import COMPILE_OUTCOME_COMPILED, COMPILE_OUTCOME_FAILED

pytestmark = pytest.mark.wire


async def test_compiles_ranks_and_who_waits(daemon: DaemonProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = json.dumps([["wait_for", str(go)]]).encode()
    broken = json.dumps([["fail", "no such operator"]]).encode()
    with AdminClient(daemon.address) as admin:
        with pytest.raises(NotFound, match="no job was seen"):
            admin.timeline()
        async with rank(daemon.address) as leader, rank(daemon.address) as joiner:
            leading = await leader.open(key_of(script), requester=pb.Requester(job="a", rank=3, world_size=4, pid=9))
            await leading.until("send_graph")
            await leading.upload(script)
            await leading.until_state(pb.COMPILE_STATE_COMPILING)
            joining = await joiner.open(key_of(script), requester=pb.Requester(job="b", rank=1, world_size=4, pid=9))
            wait_until(lambda: daemon.status().compiles[0].waiters == 2, "two ranks wait")
            status = daemon.status()
            assert list(status.compiles[0].waiting_ranks) == [3, 1]
            assert {job.job: job.waiting for job in status.jobs} == {"a": 1, "b": 1}
            go.touch()
            await leading.finish()
            await joining.finish()
            await leader.compile(broken, requester=pb.Requester(job="a", rank=2, world_size=4, pid=9))
            who = pb.Requester(job="a", rank=3, world_size=4, pid=9)
            trace = pb.RankTrace(spans=[a_span("g", 1, [(pb.STAGE_KIND_WAIT, 0, 2)])], clock_ahead_seconds=5, host="n")
            answer = await leader.stub.ReportRank(pb.ReportRankRequest(requester=who, trace=trace))
            assert answer.taken == 1
            assert answer.answered_unix > NOW
            nonsense = pb.ReportRankRequest(requester=who, trace=pb.RankTrace(spans=[pb.RankSpan(start_unix=-1)]))
            with pytest.raises(grpc.aio.AioRpcError, match="a span cannot begin"):
                await leader.stub.ReportRank(nonsense)
        assert list(admin.timeline().compiles) == list(admin.timeline("a").compiles)
        timeline = admin.timeline("a")
        assert not list(admin.timeline("b").compiles), "it was another job's compile"
    compiled, failure = timeline.compiles
    assert (compiled.key.hex(), compiled.rank, compiled.attempt) == (key_of(script), 3, 1)
    assert compiled.outcome == COMPILE_OUTCOME_COMPILED
    assert compiled.queued_unix <= compiled.started_unix <= compiled.ended_unix <= timeline.taken_unix
    assert [phase.name for phase in compiled.phases] == ["compile"]
    assert compiled.worker.startswith("worker ")
    assert (failure.outcome, failure.message, failure.rank) == (COMPILE_OUTCOME_FAILED, "no such operator", 2)
    (told,) = timeline.ranks
    assert (told.rank, told.pid, told.host, told.spans[0].start_unix) == (3, 9, "n", NOW + 6)
    assert (timeline.job.job, timeline.job.compiles) == ("a", 2)
