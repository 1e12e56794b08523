"""A worker that does what the graph says, without torch: tests start it in place of ``python -m inductord.worker``.

A graph is a JSON list of steps, each a list of a name and its arguments; see ``_Script``. Bytes that are no JSON list
are a script without steps. A script that runs to its end replies with ``artifact_of(graph)``, always the same for the
same graph.

Environment:
    SCRIPTED_LOG: a file; each job appends a line ``{"pid", "threads", "graph"}`` when it begins.
    SCRIPTED_START_NEEDS: a file; while it is absent the worker fails to start.
    SCRIPTED_THREAD: when set, what the worker imports leaves a thread behind.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from inductord.v1.compiler_pb2 import CompileFailure, FailureKind, Toolchain
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker.process import main

TOOLCHAIN = Toolchain(torch="0.0-scripted", python="3", cpu="none", cxx="none")


def artifact_of(graph: bytes, size: int = 64) -> bytes:
    """What a graph compiles to: ``size`` bytes that depend on nothing else."""
    digest = hashlib.sha256(graph).hexdigest().encode()
    return (digest * (size // len(digest) + 1))[:size]


class _Script:
    """The steps that a graph may hold, in any order and number."""

    def __init__(self, graph: bytes, threads: int) -> None:
        self.graph = graph
        self.threads = threads

    def size(self, count: int) -> CompileReply:
        """Reply with an artifact of that many bytes."""
        return CompileReply(artifact=artifact_of(self.graph, count))

    def describe(self) -> CompileReply:
        """Reply with a JSON object: pid, threads, environment, working directory."""
        seen = {"pid": os.getpid(), "threads": self.threads, "env": dict(os.environ), "cwd": os.getcwd()}
        return CompileReply(artifact=json.dumps(seen).encode())

    def fail(self, message: str, kind: int = FailureKind.FAILURE_KIND_COMPILE_ERROR) -> CompileReply:
        """Reply with a compile failure."""
        failure = CompileFailure(kind=kind, message=message, traceback=f"Traceback (scripted)\n{message}")
        return CompileReply(failure=failure)

    def nothing(self) -> CompileReply:
        """Reply without a result."""
        return CompileReply()

    def wait_for(self, path: str) -> None:
        """Go on when that file exists."""
        while not os.path.exists(path):
            time.sleep(0.01)

    def touch(self, path: str) -> None:
        """Make a file that holds this worker's pid."""
        part = Path(path + ".part")
        part.write_text(str(os.getpid()))
        part.rename(path)

    def sleep(self, seconds: float) -> None:
        """Take that long."""
        time.sleep(seconds)

    def spin(self) -> None:
        """Never end, and keep the CPU busy."""
        while True:
            pass

    def die(self, number: int = signal.SIGKILL) -> None:
        """Die of a signal."""
        os.kill(os.getpid(), number)
        signal.pause()

    def exit(self, status: int) -> None:
        """End without a reply."""
        os._exit(status)

    def raise_(self, message: str) -> None:
        """Raise, which a compile task must never do."""
        raise RuntimeError(message)

    def allocate(self, count: int) -> None:
        """Hold that many more bytes, resident."""
        self.held = bytearray(os.urandom(4096)) * (count // 4096)

    def child(self, path: str) -> None:
        """Leave a child process behind that holds this worker's output open; its pid goes to a file."""
        child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
        part = Path(path + ".part")
        part.write_text(str(child.pid))
        part.rename(path)

    def print(self, text: str, times: int = 1) -> None:
        """Write to stdout and stderr."""
        for _ in range(times):
            sys.stdout.write(text + "\n")
            sys.stderr.write(text + "\n")
        sys.stdout.flush()

    def litter(self) -> None:
        """Leave files where Inductor, Triton and the C++ compiler leave theirs."""
        for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR"):
            folder = Path(os.environ[name])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "left").write_text(name)


def compile_graph(key: str, graph: bytes, threads: int) -> CompileReply:
    """Run the script in ``graph``."""
    if log := os.environ.get("SCRIPTED_LOG"):
        line = json.dumps({"pid": os.getpid(), "threads": threads, "graph": graph.decode(errors="replace")})
        with open(log, "a") as file:
            file.write(line + "\n")
    began = time.monotonic()
    reply = run_steps(_steps_of(graph), graph, threads) or CompileReply(artifact=artifact_of(graph))
    reply.compile_seconds = time.monotonic() - began
    reply.phases["compile"] = reply.compile_seconds
    return reply


def run_steps(steps: list[list[Any]], graph: bytes, threads: int) -> CompileReply | None:
    """Do the steps; the reply of the first that has one."""
    script = _Script(graph, threads)
    for name, *arguments in steps:
        reply: CompileReply | None = getattr(script, name)(*arguments)
        if reply is not None:
            return reply
    return None


def _steps_of(graph: bytes) -> list[list[Any]]:
    try:
        steps = json.loads(graph)
    except ValueError:
        return []
    return steps if isinstance(steps, list) else []


def warm() -> Toolchain:
    """Ready at once, unless the environment says otherwise."""
    needs = os.environ.get("SCRIPTED_START_NEEDS")
    if needs and not os.path.exists(needs):
        raise RuntimeError(f"scripted: {needs} is absent, so this worker does not start")
    if "SCRIPTED_THREAD" in os.environ:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    return TOOLCHAIN


if __name__ == "__main__":
    main(warm, compile_graph)
