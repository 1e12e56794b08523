"""When a rank reports, and what it does not send twice."""

import dataclasses

import pytest

from inductord.compiler.client import Client
from inductord.compiler.cut_log import MAX_CUTS, MAX_CUTS_A_REPORT, CutLog, note_key, noting_keys
from inductord.compiler.reasons import Fallback
from inductord.compiler.reporter import Reporter
from inductord.compiler.settings import from_environment
from inductord.compiler.telemetry import Telemetry
from inductord.compiler.unavailable import Unavailable
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.cut_pb2 import GraphCut

pytestmark = pytest.mark.unit


@dataclasses.dataclass
class Daemon(Client):
    """What a rank's client would tell a daemon. ``lost``: it cannot be reached."""

    lost: bool = False
    connected: bool = True
    reports: list[pb.RankStats] = dataclasses.field(default_factory=list)
    cuts: list[list[int]] = dataclasses.field(default_factory=list)

    def report(self, request: pb.ReportRankRequest) -> pb.ReportRankResponse | None:
        if self.lost:
            raise Unavailable(Fallback.DAEMON_LOST, "gone")
        if not self.connected:
            return None
        taken = pb.ReportRankRequest.FromString(request.SerializeToString())  # as the wire copies it
        self.reports.append(taken.stats)
        self.cuts.append([cut.nodes for cut in taken.cuts])
        return pb.ReportRankResponse(taken=taken.trace.first + len(taken.trace.spans))


def made(daemon: Daemon) -> tuple[Telemetry, Reporter]:
    telemetry = Telemetry(from_environment({"INDUCTORD_JOB": "j"}))
    return telemetry, Reporter(daemon, telemetry)


def test_what_did_not_change_is_not_reported_again() -> None:
    daemon = Daemon()
    telemetry, reporter = made(daemon)
    reporter.now()
    assert daemon.reports == []
    telemetry.requested("k1", 0.5)
    reporter.now()
    reporter.now()
    telemetry.launched(0.5)
    reporter.now()
    assert [(list(each.keys), each.first_launches) for each in daemon.reports] == [(["k1"], 0), ([], 1)]


def test_a_span_alone_is_reason_enough() -> None:
    daemon = Daemon()
    telemetry, reporter = made(daemon)
    telemetry.timeline.traced(pb.STAGE_KIND_TRACE, "0/0", 1.0, 0.5)
    reporter.now()
    reporter.now()
    assert len(daemon.reports) == 1


def test_a_cut_is_told_once_and_again_when_it_was_not_taken() -> None:
    daemon = Daemon(lost=True)
    telemetry, reporter = made(daemon)
    for _ in range(2):  # a frame that is compiled again, cut as it was
        telemetry.cuts.add(GraphCut(nodes=1))
        reporter.now()
    daemon.lost = False
    for nodes in range(MAX_CUTS_A_REPORT + 2):
        telemetry.cuts.add(GraphCut(nodes=nodes + 1))
    for _ in range(3):
        reporter.now()
    assert daemon.cuts == [[*range(1, MAX_CUTS_A_REPORT + 1)], [MAX_CUTS_A_REPORT + 1, MAX_CUTS_A_REPORT + 2]]


def test_the_newest_cuts_are_kept() -> None:
    log = CutLog()
    for nodes in range(MAX_CUTS + 3):
        log.add(GraphCut(nodes=nodes))
    assert log.untold()[0].nodes == 3
    with noting_keys() as keys:
        note_key("ab" * 32)
    note_key("cd" * 32)
    assert keys == ["ab" * 32]


@pytest.mark.parametrize("trouble", [{"lost": True}, {"connected": False}])
def test_what_was_not_taken_comes_with_the_next_report(trouble: dict[str, bool]) -> None:
    daemon = Daemon(**trouble)
    telemetry, reporter = made(daemon)
    telemetry.requested("k1", 0.5)
    reporter.now()
    daemon.lost, daemon.connected = False, True
    telemetry.requested("k2", 0.5)
    reporter.now()
    assert [(list(each.keys), each.requests) for each in daemon.reports] == [(["k1", "k2"], 2)]
