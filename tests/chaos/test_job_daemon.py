"""Jobs whose daemon is absent, killed, restarted, frozen or about to stop: each ends on the loss of plain Inductor."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon import DaemonProcess, wait_until
from support.jobs import GRAPHS, Rank, Tiny, fault, recorded
from support.scrape import nonzero
from support.training import python

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

StartDaemon = Callable[..., DaemonProcess]
StartRank = Callable[..., Rank]


def gated(tiny: Tiny, folder: Path, jobs: int = 1) -> dict[str, object]:
    """Settings of a daemon whose first compiles wait for the file ``go`` in ``folder``."""
    return recorded(tiny, **fault(folder / "faults", jobs, ["wait_for", str(folder / "go")]))


def waiting(daemon: DaemonProcess) -> int:
    """How many ranks wait for a compile that runs."""
    return sum(compile.waiters for compile in daemon.status().compiles)


def both_wait(daemon: DaemonProcess, ranks: list[Rank]) -> None:
    for number, rank in enumerate(ranks):
        rank.until(lambda least=number + 1: waiting(daemon) >= least, f"{number + 1} wait")


def test_absent(start_rank: StartRank, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/nobody.sock"
    # Asked for by the environment alone, and by the script as well.
    ranks = [start_rank(address, command=python("tiny.py", *asks)) for asks in ([], ["--backend", "inductord"])]
    for rank in ranks:
        ended = rank.trained()
        assert ended.fallbacks == {"daemon_absent": GRAPHS}
        assert "inductord serve" in ended.err


def test_killed_while_ranks_wait(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path) -> None:
    daemon = start_daemon(**gated(tiny, tmp_path))
    ranks = [start_rank(daemon.address, 2) for _ in range(2)]
    both_wait(daemon, ranks)
    daemon.kill()
    for rank in ranks:
        # Its socket is still there, and nobody listens.
        assert rank.trained().fallbacks == {"daemon_lost": 1, "daemon_absent": 1}


def test_restarted_while_ranks_wait(
    tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path
) -> None:
    daemon = start_daemon(**gated(tiny, tmp_path, jobs=2) | {"heartbeat_seconds": 60})
    ranks = [start_rank(daemon.address, 2) for _ in range(2)]
    both_wait(daemon, ranks)
    # A rank waits seconds for a new daemon. Frozen, it sees the old one's death when the new one is there, on any machine.
    for rank in ranks:
        rank.process.send_signal(signal.SIGSTOP)
    daemon.kill()
    daemon.start()
    (tmp_path / "go").touch()
    for rank in ranks:
        rank.process.send_signal(signal.SIGCONT)
    # They ask again and get what the new daemon compiles.
    for rank in ranks:
        assert rank.trained().fallbacks == {}
    assert daemon.status().totals.compiles <= GRAPHS
    assert nonzero(daemon, "inductord_fallback_total") == {}


def test_frozen_before_a_rank_connects(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank) -> None:
    daemon = start_daemon(**recorded(tiny))
    daemon.process.send_signal(signal.SIGSTOP)
    # The kernel takes the connection, so only silence tells. The second graph does not try again.
    assert start_rank(daemon.address).trained().fallbacks == {"daemon_silent": GRAPHS}
    daemon.process.send_signal(signal.SIGCONT)
    wait_until(daemon.healthy, "it goes on")


def test_frozen_while_ranks_wait(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path) -> None:
    daemon = start_daemon(**gated(tiny, tmp_path) | {"heartbeat_seconds": 0.4})
    ranks = [start_rank(daemon.address, 2) for _ in range(2)]
    both_wait(daemon, ranks)
    daemon.process.send_signal(signal.SIGSTOP)
    for rank in ranks:
        assert rank.trained().fallbacks == {"daemon_silent": GRAPHS}
    daemon.process.send_signal(signal.SIGCONT)
    wait_until(lambda: waiting(daemon) == 0, "it knows that nobody waits")
    assert nonzero(daemon, "inductord_compile_requests_total") == {"cancelled": 2}
    # What it compiles for nobody serves the next job.
    (tmp_path / "go").touch()
    wait_until(lambda: daemon.status().store.entries == 1, "it is stored")


def test_stopped_while_a_rank_waits(
    tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path
) -> None:
    daemon = start_daemon(**gated(tiny, tmp_path), drain_seconds=0.2)
    rank = start_rank(daemon.address)
    rank.until(lambda: waiting(daemon) == 1, "it waits")
    assert daemon.stop() == 0
    daemon.check_clean()
    # By the time of the second graph the daemon is gone; the rank knows only that its connection is.
    assert rank.trained().fallbacks == {"daemon_draining": 1, "daemon_lost": 1}


def test_a_second_daemon_comes_in_the_middle(
    tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path
) -> None:
    daemon = start_daemon(**gated(tiny, tmp_path))
    rank = start_rank(daemon.address)
    rank.until(lambda: waiting(daemon) == 1, "it waits")
    for settings, code in (({"address": daemon.address}, 3), ({"store_path": daemon.store}, 4)):
        second = DaemonProcess(tmp_path / f"second{code}", settings)
        try:
            assert second.spawn().wait() == code
            assert str(daemon.pid) in second.log()
        finally:
            second.close()
    (tmp_path / "go").touch()
    ended = rank.trained()
    assert (ended.fallbacks, ended.count("led")) == ({}, GRAPHS)


def test_of_another_version(start_daemon: StartDaemon, start_rank: StartRank) -> None:
    script = str(Path(__file__).parent.parent / "daemons" / "other_version.py")
    daemons = [start_daemon(command=[sys.executable, script, what]) for what in ("PROTOCOL", "KEY_FORMAT")]
    ranks = [start_rank(daemon.address) for daemon in daemons]
    for daemon, rank in zip(daemons, ranks, strict=True):
        ended = rank.trained()
        assert ended.fallbacks == {"version_mismatch": GRAPHS}
        assert "same release on both sides" in ended.err
        assert daemon.status().totals.requests == 0
