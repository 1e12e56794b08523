"""Training jobs side by side: the same command with plain Inductor and through a daemon, on caches that start empty.

Shared by ``cold.py`` and the demo. It starts jobs and counts their CPU seconds; what they train is the caller's.
"""

import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _common import INDUCTORD, clean_environment, serving

_PR_SET_CHILD_SUBREAPER = 36
_CLUSTER_TIMEOUT_S = 120.0
_ORPHANS_TIMEOUT_S = 30.0


def job_environment(folder: Path) -> dict[str, str]:
    """Caches and temporary files below a new ``folder``: nothing is warm."""
    env = clean_environment(folder)
    env = {name: value for name, value in env.items() if not name.startswith("TORCHINDUCTOR_")}
    for name in ("tmp", "inductor", "triton"):
        (folder / name).mkdir(mode=0o700, parents=True)
    return env | {
        "TMPDIR": str(folder / "tmp"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


def torchrun(ranks: int, script: Path, *args: object) -> list[str]:
    """The command of a job on this node."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return [*launcher, str(script), *map(str, args)]


def run_plain(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Run the job with plain Inductor.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run(command, env={**env, "INDUCTORD": "0"}, check=True)


def run_alone(command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
    """Run the job with each rank compiling by itself what it compiles through a daemon: the same graphs, cut alike.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    nobody = {"INDUCTORD": "1", "INDUCTORD_ADDRESS": f"unix:{folder}/nobody.sock"}
    subprocess.run(command, env={**env, **nobody}, check=True)


def run_shared(
    command: Sequence[str], env: Mapping[str, str], folder: Path, daemon_flags: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Run the job through a daemon of its own, whose store is in ``folder``. Returns the report of ``inductord run``.

    Raises:
        subprocess.CalledProcessError: the job failed.
    """
    folder.mkdir(exist_ok=True)
    report = folder / "report.json"
    with serving(folder, env, daemon_flags) as daemon:
        if "ray" in daemon_flags:
            # A cluster is up before a job comes; a local Ray has to be given the time for that.
            wait_for_a_worker(daemon.address)
        through = [INDUCTORD, "run", "--address", daemon.address, "--report-file", str(report), "--"]
        subprocess.run([*through, *command], env=env, check=True)
    found: Mapping[str, Any] = json.loads(report.read_text())
    return found


def wait_for_a_worker(address: str) -> None:
    """Return when a worker of the daemon is ready, or after two minutes."""
    deadline = time.monotonic() + _CLUSTER_TIMEOUT_S
    while time.monotonic() < deadline:
        status = subprocess.run([INDUCTORD, "status", "--json", "--address", address], capture_output=True, check=True)
        if json.loads(status.stdout)["pool"].get("idle"):
            return
        time.sleep(1.0)
    print("no worker is ready yet; the job starts all the same", file=sys.stderr)


class CpuMeter:
    """CPU seconds of every process below this one, children of dead children included, from now on.

    Make it when no process runs below this one, and read it when none does any more.
    """

    def __init__(self) -> None:
        # Whoever loses its parent becomes our child, not init's: so its CPU time reaches us.
        if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise SystemExit("this kernel does not let us count the CPU time of orphaned processes")
        self._before = _seconds_of_children()

    def seconds(self) -> float:
        """CPU seconds since then. Waits for processes that are about to end."""
        deadline = time.monotonic() + _ORPHANS_TIMEOUT_S
        with contextlib.suppress(ChildProcessError):  # there are none left
            while time.monotonic() < deadline:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    time.sleep(0.05)
            print("some processes of the job still run; their CPU time is not counted", file=sys.stderr)
        return _seconds_of_children() - self._before


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
