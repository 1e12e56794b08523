"""What the benchmarks and the demo share: a real daemon in a folder of its own, and how results are shown.

It measures nothing itself. Daemons that it starts are ended by pid, whatever happens.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from inductord.compiler.client import Client, Received
from inductord.compiler.versions import this_version
from inductord.v1.compiler_pb2 import (
    GRAPH_KIND_FORWARD,
    Artifact,
    CompileRequest,
    OpenCompile,
    Progress,
    Requester,
    Served,
)
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

ROOT = Path(__file__).resolve().parents[1]
INDUCTORD = str(Path(sys.executable).with_name("inductord"))
_SCRIPTED_WORKER = ROOT / "tests" / "workers" / "scripted.py"
_STOP_TIMEOUT_S = 60.0
_MAX_WAIT_S = 120.0


@dataclasses.dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that answers at ``address``."""

    address: str
    pid: int


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for sockets, stores and caches, with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="ind-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment without settings of ours, those of a configuration file included."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("INDUCTORD")}
    return outer | {"XDG_CONFIG_HOME": str(folder)}


@contextlib.contextmanager
def serving(folder: Path, env: Mapping[str, str], flags: Sequence[str]) -> Iterator[Daemon]:
    """``inductord serve`` with socket and store in ``folder``, until the context ends. Its log is shown if it does not
    start."""
    address = f"unix:{folder / 'd.sock'}"
    log_path = folder / "daemon.log"
    command = [INDUCTORD, "serve", "--address", address, "--store", str(folder / "store"), *flags]
    with (
        log_path.open("ab") as log,
        subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            assert process.stdout is not None
            if not process.stdout.readline():  # it prints one line once it answers
                raise SystemExit(f"the daemon did not start:\n{log_path.read_text()}")
            yield Daemon(address, process.pid)
            process.terminate()
            process.wait(_STOP_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def scripted_daemon() -> Iterator[Daemon]:
    """A daemon whose workers need no torch and make artifacts of any size; see `scripted`."""
    worker = shlex.join([sys.executable, str(_SCRIPTED_WORKER)])
    with temporary_folder() as folder:
        flags = ["--worker-command", worker, "--scratch", str(folder / "scratch"), "--metrics-address", ""]
        with serving(folder, clean_environment(folder), flags) as daemon:
            yield daemon


def scripted(*steps: list[Any]) -> bytes:
    """A graph for the scripted workers: what the worker does, step by step."""
    return json.dumps(steps).encode()


def ask(client: Client, graph: bytes) -> Received:
    """One graph from lookup to artifact, by the rank's own client."""
    return client.compile(_opening(graph), lambda: graph, _ignore, _MAX_WAIT_S)


def fetch(stub: CompilerServiceStub, graph: bytes) -> "Served":
    """An artifact that is there or under way, through the socket: what a rank gets that cannot open the store's files.
    Returns how it was served."""
    digest = hashlib.sha256()
    header: Artifact | None = None
    for response in stub.Compile(iter([CompileRequest(open=_opening(graph))]), timeout=_MAX_WAIT_S):
        if response.HasField("artifact"):
            header = response.artifact
        else:
            digest.update(response.chunk)
    if header is None or digest.digest() != header.blob.sha256:
        raise SystemExit("the artifact did not come, or not whole")
    return header.served


def _opening(graph: bytes) -> OpenCompile:
    return OpenCompile(
        client=this_version(),
        key=key_of(graph),
        kind=GRAPH_KIND_FORWARD,
        requester=Requester(job="benchmark", rank=0, world_size=1, pid=os.getpid()),
    )


def key_of(graph: bytes) -> str:
    """The key of a scripted graph here."""
    return hashlib.sha256(graph).hexdigest()


def _ignore(progress: Progress) -> None:
    """Nobody looks."""


def machine() -> dict[str, Any]:
    """What a number means little without."""
    return {"cpus": len(os.sched_getaffinity(0)), "load_1m": round(os.getloadavg()[0], 1)}


def show(result: Mapping[str, Any], rows: Sequence[tuple[str, str]], *, as_json: bool) -> None:
    """The result as one line of JSON, or ``rows`` as a table."""
    if as_json:
        print(json.dumps(result))
        return
    table = Table(show_header=False)
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)
