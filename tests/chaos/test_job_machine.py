"""Jobs on machines that lack what programs like to count on: a home, a name for the user, a folder that code may be mapped
from, a place for the store, a free port."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from support.cli import INDUCTORD, Cli
from support.daemon import DaemonProcess
from support.identity import as_user
from support.jobs import GRAPHS, Rank, Tiny, recorded
from support.mounts import needs_mounts, under_mounts
from support.needs import needs, needs_program
from support.pools import DEADLINE_S, alive
from support.training import NO_GRAPH_CACHE, environment, python

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

NOBODY = 54321
"""A user that no passwd file knows."""


def test_a_cache_folder_mounted_noexec(
    tiny: Tiny, start_daemon: Callable[..., DaemonProcess], start_rank: Callable[..., Rank], tmp_path: Path
) -> None:
    needs_mounts()
    daemon = start_daemon(**recorded(tiny))
    mounts = {tmp_path / "rank0" / "inductor": "size=64m,noexec"}
    ended = start_rank(daemon.address, command=under_mounts(mounts, python("tiny.py"))).trained()
    assert (ended.fallbacks, ended.count("led")) == ({}, GRAPHS)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else has."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("what", ["store", "metrics port"])
def test_a_daemon_that_cannot_start(tiny: Tiny, tmp_path: Path, taken_port: int, what: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="inductord-test-"))  # socket paths are short, pytest's are not
    (folder / "file").touch()
    trouble = {
        "store": {"INDUCTORD_STORE_PATH": str(folder / "file" / "store")},
        "metrics port": {"INDUCTORD_METRICS_ADDRESS": f"127.0.0.1:{taken_port}"},
    }[what]
    try:
        cli = Cli(folder)
        report = tmp_path / "report.json"
        env = environment(tmp_path, cli.address, INDUCTORD=None, INDUCTORD_REPORT_DIR=None, **NO_GRAPH_CACHE)
        shutil.copytree(tiny.cache, env["TORCHINDUCTOR_CACHE_DIR"], dirs_exist_ok=True)
        ended = cli("run", "--report-file", str(report), "--", *python("tiny.py"), env=env | trouble)
        assert cli.daemon_pid() is None
    finally:
        shutil.rmtree(folder)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["losses"] == tiny.losses
    assert next(iter(trouble.values())) in ended.stderr, "it says what the daemon could not have"
    assert json.loads(report.read_text())["fallbacks"] == {"daemon_absent": GRAPHS}


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """A folder of that user. Afterwards no process of that user runs."""
    needs(os.geteuid() == 0, "root, to become another user")
    needs_program("setpriv", "util-linux")
    folder = Path(tempfile.mkdtemp(prefix="inductord-test-"))
    os.chown(folder, NOBODY, NOBODY)
    try:
        yield folder
    finally:
        theirs = [process for process in psutil.process_iter(["uids"]) if process.info["uids"].real == NOBODY]
        left = [process for process in theirs if alive(process.pid)]
        for process in left:
            process.kill()
        shutil.rmtree(folder)
    assert left == []


def as_nobody(command: list[str], env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command as that user."""
    command = as_user(NOBODY, command)
    return subprocess.run(
        command, env=env, cwd="/", capture_output=True, text=True, timeout=10 * DEADLINE_S, check=False
    )


def test_no_home_and_a_user_without_a_name(tiny: Tiny, nobodys_folder: Path, tmp_path: Path) -> None:
    env = environment(
        tmp_path,
        None,
        TMPDIR=str(nobodys_folder),
        HOME="/nonexistent",
        **dict.fromkeys(
            (
                *("USER", "LOGNAME", "LNAME", "USERNAME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"),
                *("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "INDUCTORD_REPORT_DIR"),
            )
        ),
    )
    report = nobodys_folder / "report.json"
    ended = as_nobody([*INDUCTORD, "run", "--report-file", str(report), "--", *python("tiny.py")], env)
    stopped = as_nobody([*INDUCTORD, "stop"], env)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["losses"] == tiny.losses
    said = json.loads(report.read_text())
    assert (said["fallbacks"], said["compiles"]) == ({}, GRAPHS)
    assert stopped.returncode == 0, stopped.stderr
