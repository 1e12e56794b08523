"""Whole jobs that meet faults: ranks that train ``tests/jobs/tiny.py``, and daemons whose workers know its artifacts.

What plain Inductor makes of the job, and what a real worker makes of its graphs, is found out once in a session. Ranks start
with a copy of that run's C++ libraries, so that a rank that has to compile by itself need not wait for the C++ compiler;
which graphs they compile or ask for is not touched by that, since Inductor's cache of graphs is off.
"""

import asyncio
import dataclasses
import fcntl
import json
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from support import training
from support.daemon import DaemonProcess
from support.rank import rank
from support.training import NO_GRAPH_CACHE

from inductord.v1.compiler_pb2 import Toolchain

WORKERS = Path(__file__).parent.parent / "workers"
GRAPHS = 2
"""Forward and backward."""


@dataclasses.dataclass(frozen=True)
class Tiny:
    """``losses``: of plain Inductor; ``cache``: the Inductor cache folder that it left; ``artifacts``: folder of what a real
    worker made, by key, first forward's, then backward's; ``toolchain``: which workers its ranks ask for."""

    losses: list[str]
    cache: Path
    artifacts: Path
    keys: tuple[str, str]
    toolchain: Toolchain


def recorded_once(folder: Path, daemon: Callable[[], DaemonProcess]) -> Tiny:
    """Run the job on plain Inductor and through a daemon with real workers, or take what another process found out.

    Args:
        folder: of all processes of the session.
        daemon: starts it.
    """
    folder.mkdir(exist_ok=True)
    known = folder / "tiny.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            known.write_text(json.dumps(_record(folder, daemon())))
    found = json.loads(known.read_text())
    forward, backward = found["keys"]
    toolchain = json_format.ParseDict(found["toolchain"], Toolchain())
    return Tiny(found["losses"], folder / "plain" / "inductor", folder / "artifacts", (forward, backward), toolchain)


def _record(folder: Path, daemon: DaemonProcess) -> dict[str, Any]:
    plain = training.train(folder / "plain", training.python("tiny.py"), None, **NO_GRAPH_CACHE)
    through = training.train(folder / "through", training.python("tiny.py"), daemon.address, **NO_GRAPH_CACHE)
    assert through.result == plain.result
    assert (through.fallbacks, through.count("led"), len(through.keys)) == ({}, GRAPHS, GRAPHS), through.err
    artifacts = folder / "artifacts"
    artifacts.mkdir(exist_ok=True)
    for key in through.keys:
        (artifacts / key).write_bytes(asyncio.run(_fetch(daemon.address, key)))
    forward, backward = sorted((daemon.entry(key) for key in through.keys), key=lambda entry: entry.kind)
    toolchain = json_format.MessageToDict(forward.toolchain)
    return {"losses": plain.result["losses"], "keys": [forward.key, backward.key], "toolchain": toolchain}


async def _fetch(address: str, key: str) -> bytes:
    async with rank(address) as one:
        return (await one.fetch(key)).artifact


class Rank(training.Running):
    """One rank of the job. ``command``: what is run, the script by default; ``more``: further variables."""

    def __init__(
        self, tiny: Tiny, folder: Path, address: str, number: int, world_size: int, command: Sequence[str], **more: str
    ) -> None:
        self._tiny = tiny
        of_rank = {"RANK": str(number), "WORLD_SIZE": str(world_size), "INDUCTORD_JOB": "job"}
        env = training.environment(folder, address, **of_rank, **NO_GRAPH_CACHE, **more)
        shutil.copytree(tiny.cache, env["TORCHINDUCTOR_CACHE_DIR"], dirs_exist_ok=True)
        super().__init__(command, env)

    def trained(self) -> training.Ended:
        """Wait for the end of a rank that trains well: with the losses of plain Inductor, each graph served or compiled."""
        ended = self.finish()
        assert ended.result["losses"] == self._tiny.losses
        served = sum(ended.count(name) for name in ("hits", "joined", "led"))
        assert served + sum(ended.fallbacks.values()) == GRAPHS, ended.err
        return ended

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it by a signal and return its exit code."""
        self.process.send_signal(number)
        return self.finish().code


def under_torchrun(
    tiny: Tiny, folder: Path, address: str, ranks: int, restarts: int = 0, **more: str
) -> training.Running:
    """The job as torchrun starts it on one node; see ``training.torchrun``. ``more``: further variables."""
    env = training.environment(folder, address, **NO_GRAPH_CACHE, **more)
    shutil.copytree(tiny.cache, env["TORCHINDUCTOR_CACHE_DIR"], dirs_exist_ok=True)
    return training.Running(training.torchrun(ranks, "tiny.py", restarts=restarts), env)


# Silence of five heartbeats is death to a rank, and a busy machine can make a living daemon that silent.
_PATIENT = {"heartbeat_seconds": 2.0}


def recorded(tiny: Tiny, **environment: str) -> dict[str, Any]:
    """Settings of a daemon whose workers reply with the artifacts of the session's real compile."""
    return {
        "worker_command": shlex.join([sys.executable, str(WORKERS / "recorded.py")]),
        **_PATIENT,
        "environment": {"RECORDED": str(tiny.artifacts), **environment},
    }


def really_compiling(tiny: Tiny, **environment: str) -> dict[str, Any]:
    """Settings of a daemon with one worker that really compiles."""
    return {
        "worker_command": shlex.join([sys.executable, str(WORKERS / "real.py")]),
        **_PATIENT,
        "environment": {"WARM_CACHE": str(tiny.cache), **environment},
        "max_workers": 1,
    }


def fault(folder: Path, jobs: int, *steps: list[Any]) -> dict[str, str]:
    """Variables by which the first ``jobs`` jobs of a daemon begin with ``steps`` (``tests/workers/faults.py``)."""
    folder.mkdir(exist_ok=True)
    return {"FAULT_STEPS": json.dumps(steps), "FAULT_JOBS": str(jobs), "FAULT_FOLDER": str(folder)}
