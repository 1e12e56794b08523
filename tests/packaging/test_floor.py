"""The oldest versions that pyproject.toml admits, for real: a rank on old gRPC and protobuf, a daemon on old everything.

Training images carry old libraries, and generated stubs refuse a runtime older than their generator. torch's range is
tested where torch is, not here.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.daemon import DaemonProcess
from support.installs import REPO, Environment, floors

pytestmark = pytest.mark.packaging

# What a rank does on the wire, without torch: asks, uploads, receives, reports.
RANK = """
import hashlib, importlib, json, pkgutil, sys
import google.protobuf, grpc
import inductord.v1
from inductord.compiler.client import Client
from inductord.compiler.versions import this_version
from inductord.v1 import compiler_pb2 as pb

for module in pkgutil.iter_modules(inductord.v1.__path__):
    importlib.import_module("inductord.v1." + module.name)
graph = sys.argv[2].encode()
key = hashlib.sha256(graph).hexdigest()
client = Client(sys.argv[1])
opening = pb.OpenCompile(client=this_version(), key=key, kind=pb.GRAPH_KIND_FORWARD)
got = [client.compile(opening, lambda: graph, lambda progress: None, 60.0) for _ in range(2)]
print(json.dumps({
    "versions": [grpc.__version__, google.protobuf.__version__],
    "bytes": [len(one.artifact) for one in got],
    "served": [one.served for one in got],
}))
"""


def stated(requirements: list[str], name: str) -> str:
    """The least version of one package."""
    (pin,) = (pin for pin in floors(requirements) if pin.startswith(f"{name}=="))
    return pin.partition("==")[2]


def test_a_rank_of_the_oldest_versions_compiles_through_a_new_daemon(
    rank_floor: Environment, daemon: DaemonProcess, project: dict[str, Any]
) -> None:
    from inductord.v1 import compiler_pb2 as pb

    said = rank_floor.run("-c", RANK, daemon.address, json.dumps([["size", 3_000_000]]))
    seen = json.loads(said.splitlines()[-1])
    grpc_version, protobuf_version = seen["versions"]
    assert grpc_version.startswith(stated(project["dependencies"], "grpcio"))
    assert protobuf_version.startswith(stated(project["dependencies"], "protobuf"))
    assert seen["bytes"] == [3_000_000, 3_000_000]
    assert seen["served"] == [pb.SERVED_LED, pb.SERVED_HIT]


def test_a_daemon_of_the_oldest_versions_serves(daemon_floor: Environment, tmp_path: Path) -> None:
    """The tests of the wire, run by the old environment on the wheel that it has installed."""
    assert daemon_floor.home_of("inductord") == daemon_floor.packages / "inductord"
    tests = [str(REPO / "tests" / "wire" / name) for name in ("test_compile.py", "test_store_life.py")]
    env = {"INDUCTORD_TEST_ALL": os.environ.get("INDUCTORD_TEST_ALL", "")}
    said = daemon_floor.run(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "floor"), *tests),
        env=env,
        cwd=REPO,
    )
    assert " passed" in said


def test_the_command_line_of_the_oldest_versions_speaks_to_a_daemon(
    daemon_floor: Environment, start_daemon: Callable[..., DaemonProcess]
) -> None:
    daemon = start_daemon()
    env = {"INDUCTORD_ADDRESS": daemon.address}
    assert json.loads(daemon_floor.script("inductord", "status", "--json", env=env))
    assert "compile_timeout" in daemon_floor.script("inductord", "config", env=env)
    findings = json.loads(daemon_floor.script("inductord", "doctor", "--json", env=env, code=1))["findings"]
    assert {finding["check"] for finding in findings if finding["level"] == "fail"} == {
        "torch"
    }  # which is left out here
    daemon_floor.script("inductord", "stop", env=env)
    assert daemon.wait() == 0
