"""Graphs of a real job: recorded, compiled by `warm` into an empty store, and not compiled again by the job that follows."""

import json
import sys
from pathlib import Path

import pytest
from support import training
from support.cli import Cli
from support.daemon import running_daemon
from support.stores import key_file

from inductord.daemon.bundle import BundleReader
from inductord.daemon.client import AdminClient
from inductord.daemon.shared.keys import read
from inductord.v1.compiler_pb2 import GRAPH_KIND_BACKWARD, GRAPH_KIND_FORWARD
from inductord.v1.sealed_pb2 import SEALED_CONTENT_GRAPH

pytestmark = pytest.mark.integration

REAL = {"worker_command": f"{sys.executable} -m inductord.worker", "max_workers": 1, "heartbeat_seconds": 2}
GRAPHS = 2


def test_a_job_after_warm_compiles_nothing_and_its_hits_are_recorded_too(tmp_path: Path) -> None:
    cli, keys = Cli(tmp_path), key_file(tmp_path)
    with running_daemon(tmp_path / "daemon", **REAL) as daemon, AdminClient(daemon.address) as admin:
        env = training.environment(tmp_path / "job", None) | {"INDUCTORD_ADDRESS": daemon.address}

        def record(name: str) -> tuple[object, dict[str, int], str]:
            """What the job printed, the kinds of the graphs in the file by key, and what was said."""
            file = tmp_path / name
            job = ["--key-file", str(keys), "--to", str(file), *("--", *training.python("tiny.py"))]
            ended = cli("record", "--address", daemon.address, *job, env=env)
            assert ended.returncode == 0, ended.stderr
            with BundleReader(file, SEALED_CONTENT_GRAPH, read(keys), 1 << 28) as reader:
                found = [member.unsealed.entry for member in reader.members() if member.unsealed]
            return json.loads(ended.stdout.splitlines()[-1]), {one.key: one.kind for one in found}, ended.stderr

        printed, graphs, said = record("graphs.tar")
        assert sorted(graphs.values()) == [GRAPH_KIND_FORWARD, GRAPH_KIND_BACKWARD]
        assert f"2 graphs recorded in {tmp_path}/graphs.tar." in said
        assert "2 compiled, 0 joined" in said
        assert not list(tmp_path.glob(".graphs.tar*"))

        assert admin.collect(0).evicted == GRAPHS
        warm = cli("warm", "--key-file", str(keys), str(tmp_path / "graphs.tar"), "--json", env=env)
        summary = json.loads(warm.stdout)
        assert (warm.returncode, summary["compiled"], summary["failed"]) == (0, GRAPHS, []), warm.stderr
        compiles = daemon.status().totals.compiles

        # All hits: no rank uploads a graph, and each is recorded.
        again, same, said = record("again.tar")
        assert (again, same) == (printed, graphs)
        assert "0 compiled, 0 joined a running compile, 2 found stored" in said
        assert daemon.status().totals.compiles == compiles == 2 * GRAPHS
