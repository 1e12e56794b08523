"""``inductord report`` and the page of ``inductord run``, as users call them."""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import Cli
from support.rank import key_of, rank
from support.timelines import a_span

from inductord.v1 import compiler_pb2 as pb

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
    assert "forward graph of 321 nodes" in page.read_text()
    wrong = cli("run", *nowhere, "--report", "page.txt", "--", sys.executable, "-c", "print('trained')")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    lost = cli("run", *nowhere, "--report", str(tmp_path / "absent" / "run.html"), "--", sys.executable, "-c", RANK)
    assert (lost.returncode, "could not be written" in lost.stderr) == (0, True)
