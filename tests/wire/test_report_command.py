"""``inductord report`` and the page of ``inductord run``, as users call them."""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from support.cli import Cli
from support.rank import key_of, rank
from support.timelines import a_span

from inductord.v1 import compiler_pb2 as pb
from inductord.v1.cut_pb2 import CutPiece, GraphCut

pytestmark = pytest.mark.wire

# A rank that leaves what it did, as a real one does at its end.
RANK = """
import json, os
from google.protobuf import json_format
from inductord.compiler.settings import from_environment
from inductord.compiler.telemetry import Telemetry
from inductord.v1.compiler_pb2 import GRAPH_KIND_FORWARD, STAGE_KIND_LOCAL_COMPILE
from inductord.compiler.reasons import Fallback
telemetry = Telemetry(from_environment())
telemetry.write_at_exit()
with telemetry.timeline.graph(GRAPH_KIND_FORWARD, 321) as recorder:
    recorder.fell_back(Fallback.DAEMON_ABSENT)
    telemetry.fell_back(Fallback.DAEMON_ABSENT, "gone", "forward graph")
    with recorder.stage(STAGE_KIND_LOCAL_COMPILE):
        pass
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.end_daemon()


async def test_a_job_can_be_read_looked_at_and_traced(cli: Cli, tmp_path: Path) -> None:
    with cli.serving():
        nothing = cli("report")
        assert (nothing.returncode, "no job was seen yet" in nothing.stderr) == (6, True)
        who = pb.Requester(job="<b>llama</b>", rank=0, world_size=1, pid=1)
        async with rank(cli.address) as one:
            await one.compile(b"[]", requester=who)
            stages = [(pb.STAGE_KIND_WAIT, 0.0, 2.0)]
            span = a_span("x", 0, stages, served=pb.SERVED_LED)
            stats = pb.RankStats(requests=1, led=1, wait_seconds=2)
            report = pb.ReportRankRequest(requester=who, stats=stats, trace=pb.RankTrace(spans=[span]))
            await one.stub.ReportRank(report)
        text = cli("report").stdout
        assert "job <b>llama</b>: 1 rank, 1 distinct graph" in text
        assert "rank 0: traced 0.0 s, waited 2.0 s" in text
        said = json.loads(cli("report", "<b>llama</b>", "--json").stdout)
        assert (said["requests"], said["compiles"], said["timeline"]["compiles"][0]["key"]) == (1, 1, key_of(b"[]"))
        page, trace = tmp_path / "job.html", tmp_path / "job.json.gz"
        written = cli("report", "--html", str(page), "--trace", str(trace))
        assert (written.returncode, written.stdout) == (0, "")
        assert "<h1>&lt;b&gt;llama&lt;/b&gt;</h1>" in page.read_text()
        assert len(json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]) > 5
        lost = cli("report", "--html", str(tmp_path / "absent" / "job.html"))
        assert (lost.returncode, "could not be written" in lost.stderr) == (1, True)
        assert cli("report", "another").returncode == 6
    assert cli("report").returncode == 5


def test_run_leaves_a_page_also_without_a_daemon(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    nowhere = ("--address", "unix:/proc/nowhere/d.sock")
    ran = cli("run", *nowhere, "--report", str(page), "--", sys.executable, "-c", RANK)
    assert ran.returncode == 0, ran.stderr
    assert "1 × daemon_absent" in ran.stderr
    assert f"inductord: wrote {page}." in ran.stderr
    assert "forward graph of 321 nodes" in page.read_text()
    wrong = cli("run", *nowhere, "--report", "page.txt", "--", sys.executable, "-c", "print('trained')")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    lost = cli("run", *nowhere, "--report", str(tmp_path / "absent" / "run.html"), "--", sys.executable, "-c", RANK)
    assert (lost.returncode, "could not be written" in lost.stderr) == (0, True)


async def test_how_graphs_were_cut_can_be_asked_by_key_and_by_job(cli: Cli) -> None:
    keys = [key_of(str(number).encode()) for number in range(3)]
    piece = CutPiece(times=31, nodes=40, first="add_1", last="\x1b[2Jadd_9", outputs=1, output_names=["add_9"])
    piece.keys.extend(map(bytes.fromhex, keys[:2]))
    cut = GraphCut(nodes=1250, note="cut here", pieces=33, distinct=2, distinct_nodes=50, distinct_pieces=[piece])
    whole = GraphCut(nodes=12, whole="too_small", note="the graph has 12 nodes", keys=[bytes.fromhex(keys[2])])
    with cli.serving():
        nothing = cli("explain")
        assert (nothing.returncode, "no rank told yet" in nothing.stderr) == (6, True)
        stats = pb.RankStats(
            requests=3,
            regions={"composed": 1, "whole": 1},
            whole_graphs={"too_small": 1},
            region_pieces=33,
            region_distinct=2,
        )
        async with rank(cli.address) as one:
            for number in range(2):
                who = pb.Requester(job="llama", rank=number, world_size=2, pid=number + 1)
                cuts = [cut, whole] if number else [cut]
                await one.stub.ReportRank(
                    pb.ReportRankRequest(requester=who, stats=stats if number else None, cuts=cuts)
                )
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await one.stub.ReportRank(pb.ReportRankRequest(requester=who, cuts=[GraphCut(keys=[b"short"])]))
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        one_key = cli("explain", keys[1][:8].upper()).stdout.splitlines()
        assert one_key == [
            "job llama, ranks 0–1: a graph of 1250 nodes in 33 pieces, 2 of them distinct with 50 nodes; cut here",
            "  0: 31 times, 40 nodes, add_1 to \ufffd[2Jadd_9; hands on add_9",
            f"     compiled as {keys[0][:12]}, {keys[1][:12]} (this key)",
            "  and 1 more distinct pieces",
        ]
        of_last = cli("explain").stdout
        assert of_last == cli("explain", "--job", "llama").stdout
        assert "rank 1: a graph of 12 nodes, compiled whole: the graph has 12 nodes (too_small)" in of_last
        said = json.loads(cli("explain", keys[2], "--json").stdout)
        assert (said["cuts"][0]["cut"]["whole"], said["cuts"][0]["ranks"], said["dropped"]) == ("too_small", [1], 0)
        assert cli("explain", "0" * 64).returncode == 6
        assert cli("explain", "--job", "llama", keys[0]).returncode == 2
        assert (
            "regions    1 graph cut into 33 pieces, 2 distinct; 1 graph compiled whole (1 × too_small)"
            in cli("report").stdout
        )
    assert cli("explain").returncode == 5
