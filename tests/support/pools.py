"""Real pools with scripted workers, and what tests need to look at their processes."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from inductord.v1.compiler_pb2 import Toolchain
from inductord.worker.failures import WorkerFailure
from inductord.worker.local_pool import LocalPool, LocalPoolConfig
from inductord.worker.pool import Compiled, Job, Outcome, Pool

SCRIPTED = (sys.executable, str(Path(__file__).parent.parent / "workers" / "scripted.py"))
DEADLINE_S = 60.0


def script(*steps: list[Any]) -> bytes:
    """A graph for ``workers/scripted.py``."""
    return json.dumps(steps).encode()


def job(*steps: list[Any], key: str = "0" * 64) -> Job:
    """A job for ``workers/scripted.py``."""
    return Job(key=key, graph=script(*steps), toolchain=Toolchain())


async def compile_(pool: Pool, *steps: list[Any]) -> Outcome:
    """Compile one script."""
    return await pool.compile(job(*steps), lambda: None)


async def describe(pool: Pool) -> dict[str, Any]:
    """What the next free worker sees of itself."""
    outcome = await compile_(pool, ["describe"])
    assert isinstance(outcome, Compiled), outcome
    seen: dict[str, Any] = json.loads(outcome.artifact)
    return seen


async def until(condition: Callable[[], bool], what: str | Callable[[], str], seconds: float = DEADLINE_S) -> None:
    """Wait for a condition, as long as a slow machine may need. ``what`` it is; a function when only the end tells."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never: {what() if callable(what) else what}"
        await asyncio.sleep(0.01)


def command_line(process: psutil.Process) -> list[str]:
    """The program and its arguments; empty when the process has ended since it was listed."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children() -> list[psutil.Process]:
    """Processes below this one that still run."""
    return [child for child in psutil.Process(os.getpid()).children(recursive=True) if alive(child.pid)]


class Recorder:
    """Counts worker failures."""

    def __init__(self) -> None:
        self.failures: list[WorkerFailure] = []

    def __call__(self, reason: WorkerFailure) -> None:
        self.failures.append(reason)


@contextlib.asynccontextmanager
async def local_pool(
    scratch: Path,
    *,
    on_failure: Callable[[WorkerFailure], None] = lambda _: None,
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[LocalPool]:
    """A started pool of scripted workers. Afterwards it is stopped, and nothing of it is left."""
    settings = {"max_workers": 1, "max_artifact_bytes": 2**20, "command": SCRIPTED} | settings
    others = set(children())  # such as a daemon that serves the whole session
    pool = LocalPool(LocalPoolConfig(scratch=scratch, environment=environment or {}, **settings), on_failure)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.stop(5.0)
    await until(lambda: others.issuperset(children()), "no process of the pool is left")
    assert list(scratch.iterdir()) == []
