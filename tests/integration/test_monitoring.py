"""What people see: a real Prometheus scrapes a real daemon that serves a real job, and every expression of the dashboards
and rules is run on it. The dashboard of Ray has its own job, in ``cluster/test_job.py``."""

from pathlib import Path

import pytest
import yaml
from support.daemon import DaemonProcess, wait_until
from support.prometheus import DASHBOARDS, Prometheus, running_prometheus
from support.rank import key_of, rank
from support.training import NO_GRAPH_CACHE, torchrun, train

from inductord.daemon.client import AdminClient
from inductord.daemon.report.facts import is_frame
from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

RANKS = 2
BOARDS = ("inductord-job", "inductord-node", "inductord-overview")
AUTO = {"INDUCTORD_REGIONS": "auto", **NO_GRAPH_CACHE}


async def test_every_expression_finds_what_a_job_did(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    with running_prometheus(tmp_path / "prometheus", real_daemon.status().metrics_address) as prometheus:
        # Increase is counted from the second scrape that succeeds.
        wait_until(lambda: prometheus.values("sum_over_time(up[1h]) > 1") != [], "it has scraped twice")
        job = torchrun(RANKS, "tiny.py")
        ended = train(tmp_path / "job", job, real_daemon.address, INDUCTORD_JOB="seen", **AUTO)
        assert (ended.code, ended.fallbacks) == (0, {}), ended.err
        assert ended.count("first_launches") == RANKS * 2  # forward and backward
        _check_frames(real_daemon)
        _check_cuts(real_daemon, ended.keys)
        await _trouble(real_daemon)
        trouble = 'inductord_job_fallbacks_total{job="another"} > 0'  # other tests have used this daemon too
        wait_until(lambda: prometheus.values(trouble) != [], "it has scraped all of it")
        wait_until(lambda: all(rule["health"] == "ok" for rule in _rules(prometheus)), "rules are evaluated")

        assert prometheus.values('inductord_job_ranks{job="seen"}') == [RANKS]
        assert prometheus.values('sum(inductord_job_requests_total{job="seen"})') == [ended.count("requests")]
        for phase in ("dynamo", "aot", "wait", "load", "launch"):
            slowest = f'inductord_job_rank_seconds{{job="seen",phase="{phase}",stat="max"}} > 0'
            assert len(prometheus.values(slowest)) == 1, phase
        assert prometheus.empty_panels(BOARDS) == set()
        _check_rules(prometheus)
        _check_exemplars(prometheus, ended.keys)


def _check_frames(daemon: DaemonProcess) -> None:
    """Each rank tells when it traced: its one frame, which began before its graphs and before anybody watched."""
    with AdminClient(daemon.address) as client:
        ranks = client.timeline("seen").ranks
    for rank_ in ranks:
        frames = [span for span in rank_.spans if is_frame(span)]
        kinds = [stage.kind for span in frames for stage in span.stages]
        assert sorted(kinds) == [pb.STAGE_KIND_TRACE, pb.STAGE_KIND_LAZY_BACKWARD]
        graphs = [span for span in rank_.spans if span.key]
        assert min(frames, key=lambda span: span.start_unix).start_unix < min(span.start_unix for span in graphs)
    assert len(ranks) == RANKS


def _check_cuts(daemon: DaemonProcess, keys: set[str]) -> None:
    """A graph that is too small for regions says so, under the key of its forward graph; both ranks told the same."""
    with AdminClient(daemon.address) as client:
        (told,) = client.cuts(job="seen").cuts
        (key,) = (each.hex() for each in told.cut.keys)
        # Other tests may have had the same graph.
        assert [each for each in client.cuts(key=key).cuts if each.job == "seen"] == [told]
    assert (told.cut.whole, list(told.ranks)) == ("too_small", [0, 1])
    assert key in keys


async def _trouble(daemon: DaemonProcess) -> None:
    """A graph that no worker can load, and a rank that compiled by itself."""
    async with rank(daemon.address) as one:
        graph = b"no graph of anybody's"
        answer = await one.compile(graph, key=key_of(graph), requester=pb.Requester(job="seen", rank=0, world_size=2))
        assert answer.failure is not None
        await one.stub.ReportRank(
            pb.ReportRankRequest(
                requester=pb.Requester(job="another", rank=0, world_size=1, pid=1),
                stats=pb.RankStats(fallbacks={"daemon_busy": 2}, local_compile_seconds=3),
            )
        )


def _rules(prometheus: Prometheus) -> list[dict[str, str]]:
    return [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]


def _check_rules(prometheus: Prometheus) -> None:
    source = yaml.safe_load((DASHBOARDS / "rules" / "inductord.rules.yml").read_text())
    names = {rule.get("record") or rule["alert"] for group in source["groups"] for rule in group["rules"]}
    rules = {rule["name"]: rule for rule in _rules(prometheus)}
    assert rules.keys() == names
    assert {name: rule.get("lastError") for name, rule in rules.items() if rule["health"] != "ok"} == {}
    records = [name for name, rule in rules.items() if rule["type"] == "recording"]
    # A rule is evaluated on what was scraped before it.
    wait_until(lambda: all(prometheus.values(name) for name in records), "each record has a value")


def _check_exemplars(prometheus: Prometheus, keys: set[str]) -> None:
    found = [
        exemplar["labels"]
        for series in prometheus.api(
            "query_exemplars",
            query="inductord_wait_seconds_bucket",
            start="2000-01-01T00:00:00Z",
            end="2100-01-01T00:00:00Z",
        )
        for exemplar in series["exemplars"]
        if exemplar["labels"]["job"] == "seen"
    ]
    assert found
    assert {exemplar["key"] for exemplar in found} <= {key[:16] for key in keys}
