"""Jobs of which a rank dies or gives up while others wait for the same graph: those go on."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon import DaemonProcess, wait_until
from support.jobs import GRAPHS, Rank, Tiny, fault, recorded
from support.scrape import nonzero
from support.training import python

from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

StartDaemon = Callable[..., DaemonProcess]
StartRank = Callable[..., Rank]


def waiters(daemon: DaemonProcess, state: int) -> int:
    """How many ranks wait for a graph in this state."""
    return sum(compile.waiters for compile in daemon.status().compiles if compile.state == state)


def test_the_leader_is_killed_during_its_upload(
    tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path
) -> None:
    daemon = start_daemon(**recorded(tiny))
    stuck = tmp_path / "stuck"
    leader = start_rank(daemon.address, 2, python("stuck_upload.py"), STUCK=str(stuck))
    leader.until(stuck.exists, "the leader is asked for the graph")
    joiner = start_rank(daemon.address, 2)
    joiner.until(lambda: waiters(daemon, pb.COMPILE_STATE_UPLOADING) == 2, "the other rank joined")
    assert leader.kill() == -signal.SIGKILL
    ended = joiner.trained()
    assert (ended.fallbacks, ended.count("led")) == ({}, GRAPHS)
    requests = nonzero(daemon, "inductord_compile_requests_total")
    assert requests.pop("led") == GRAPHS
    # It ended in the middle of what it had to say, and its connection ended: the daemon counts what it saw first.
    assert requests in ({"rejected": 1}, {"cancelled": 1})
    assert daemon.status().totals.compiles == GRAPHS


def test_the_leader_is_killed_during_its_compile(
    tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    daemon = start_daemon(**recorded(tiny, **fault(tmp_path / "faults", 1, ["wait_for", str(go)])))
    leader = start_rank(daemon.address, 2)
    leader.until(lambda: waiters(daemon, pb.COMPILE_STATE_COMPILING) == 1, "the leader's graph is compiled")
    joiner = start_rank(daemon.address, 2)
    joiner.until(lambda: waiters(daemon, pb.COMPILE_STATE_COMPILING) == 2, "the other rank joined")
    assert leader.kill() == -signal.SIGKILL
    wait_until(lambda: waiters(daemon, pb.COMPILE_STATE_COMPILING) == 1, "the daemon knows")
    go.touch()
    ended = joiner.trained()
    # The compile went on for the joiner; backward it leads itself.
    assert (ended.fallbacks, ended.count("requests")) == ({}, GRAPHS)
    assert nonzero(daemon, "inductord_compile_requests_total")["cancelled"] == 1
    assert daemon.status().totals.compiles == GRAPHS
    assert nonzero(daemon, "inductord_worker_failures_total") == {}


def test_a_rank_waits_no_longer_than_it_may(
    tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    daemon = start_daemon(**recorded(tiny, **fault(tmp_path / "faults", 1, ["wait_for", str(go)])))
    ended = start_rank(daemon.address, INDUCTORD_MAX_WAIT="1").trained()
    # Forward; and backward too where the machine takes that long to hand over what is there.
    assert set(ended.fallbacks) == {"wait_exceeded"}
    assert nonzero(daemon, "inductord_fallback_total") == ended.fallbacks
    assert nonzero(daemon, "inductord_compile_requests_total")["cancelled"] == ended.fallbacks["wait_exceeded"]
    go.touch()
    wait_until(lambda: waiters(daemon, pb.COMPILE_STATE_COMPILING) == 0, "the compile ends")


def test_a_rank_is_interrupted_while_it_waits(
    tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    daemon = start_daemon(**recorded(tiny, **fault(tmp_path / "faults", 1, ["wait_for", str(go)])))
    rank = start_rank(daemon.address)
    rank.until(lambda: waiters(daemon, pb.COMPILE_STATE_COMPILING) == 1, "it waits")
    rank.process.send_signal(signal.SIGINT)
    interrupted = rank.finish()
    assert interrupted.code == -signal.SIGINT
    assert "KeyboardInterrupt" in interrupted.err
    wait_until(
        lambda: nonzero(daemon, "inductord_compile_requests_total") == {"cancelled": 1}, "the daemon knows that it left"
    )
    go.touch()
    wait_until(lambda: daemon.status().store.entries == 1, "what was begun is finished and kept")
    ended = start_rank(daemon.address).trained()
    assert (ended.fallbacks, ended.count("hits"), ended.count("led")) == ({}, 1, 1)
