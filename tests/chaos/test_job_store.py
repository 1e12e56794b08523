"""Jobs whose daemon has a store that was damaged or has no room: they get whole artifacts all the same."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon import COMMAND, DaemonProcess
from support.jobs import GRAPHS, Rank, Tiny, recorded
from support.mounts import needs_mounts, under_mounts
from support.rank import rank
from support.scrape import nonzero

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

StartDaemon = Callable[..., DaemonProcess]
StartRank = Callable[..., Rank]


async def store_all(daemon: DaemonProcess, tiny: Tiny) -> None:
    """Let the recorded workers reply for every graph, so that all is stored."""
    async with rank(daemon.address) as one:
        for key in tiny.keys:
            stream = await one.open(key)
            await stream.finish(b"a graph")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


async def test_damaged(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank) -> None:
    # Without a memory tier every hit comes from the disk.
    daemons = [start_daemon(**recorded(tiny), memory_bytes=0) for _ in range(2)]
    for daemon, damages in zip(daemons, ((flip, cut), (Path.unlink, make_folder)), strict=True):
        await store_all(daemon, tiny)
        blobs = [path for path in (daemon.store / "blobs").rglob("*") if path.is_file()]
        for path, damage in zip(blobs, damages, strict=True):
            damage(path)
    ranks = [start_rank(daemon.address) for daemon in daemons]
    for daemon, one in zip(daemons, ranks, strict=True):
        ended = one.trained()
        assert (ended.fallbacks, ended.count("led")) == ({}, GRAPHS)
        status = daemon.status()
        assert (status.store.quarantined, status.totals.compiles) == (GRAPHS, 2 * GRAPHS)


def test_full(tiny: Tiny, start_daemon: StartDaemon, start_rank: StartRank, tmp_path: Path) -> None:
    needs_mounts()
    disk = tmp_path / "disk"
    daemon = start_daemon(**recorded(tiny), command=under_mounts({disk: "size=4m"}, COMMAND), store_path=disk / "store")
    # The disk is there for the daemon alone.
    filler = Path(f"/proc/{daemon.pid}/root", *disk.parts[1:], "filler")
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert os.statvfs(filler).f_bfree == 0
    ranks = [start_rank(daemon.address, 2) for _ in range(2)]
    ended = [one.trained() for one in ranks]
    assert [one.fallbacks for one in ended] == [{}, {}]
    assert sum(one.count("led") for one in ended) == daemon.status().totals.compiles == GRAPHS
    assert "No space left" in daemon.status().store.note
    assert nonzero(daemon, "inductord_compile_requests_total")["led"] == GRAPHS
