"""Bundles and warming by the command line: through a daemon and in a folder, with what is refused on the way."""

import hashlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from support.cli import Cli
from support.daemon import DaemonProcess, running_daemon
from support.rank import key_of, rank
from support.scrape import nonzero
from support.stores import key_file

from inductord.daemon.bundle import BundleReader, Listed, write_bundle
from inductord.daemon.client import AdminClient, RequestFailed
from inductord.daemon.shared.keys import read
from inductord.daemon.shared.sealed import seal
from inductord.v1.admin_pb2 import (
    PUT_OUTCOME_PRESENT,
    PUT_OUTCOME_REFUSED,
    PUT_OUTCOME_STORED,
    Entry,
    PutArtifactRequest,
)
from inductord.v1.admin_pb2_grpc import AdminServiceStub
from inductord.v1.compiler_pb2 import GRAPH_KIND_BACKWARD, SERVED_HIT
from inductord.v1.sealed_pb2 import SEALED_CONTENT_ARTIFACT, SEALED_CONTENT_GRAPH

pytestmark = pytest.mark.wire

GRAPHS = [json.dumps([["size", 1000 + number]]).encode() for number in range(3)]
IMPORTS = "inductord_store_imports_total"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.end_daemon()


def of(cli: Cli, daemon: DaemonProcess) -> dict[str, str]:
    """The environment in which commands ask this daemon."""
    return {"INDUCTORD_ADDRESS": daemon.address}


def answer(result: "subprocess.CompletedProcess[str]", code: int = 0) -> Any:
    assert result.returncode == code, (result.stdout, result.stderr)
    return json.loads(result.stdout)


async def test_what_one_store_exports_another_imports(cli: Cli, tmp_path: Path) -> None:
    keys, bundle = str(key_file(tmp_path)), str(tmp_path / "bundle.tar")
    with running_daemon(tmp_path / "one", shared_store_keys=keys) as one:
        async with rank(one.address) as asking:
            made = [(await asking.compile(graph, nodes=7, key_parts={"a": "b"})).artifact for graph in GRAPHS]
            await asking.compile(b"of another job", requester={"job": "other"})
        exported = answer(
            cli("store", "export", bundle, "--job", "job", "--key-file", keys, "--json", env=of(cli, one))
        )
        assert (exported["exported"], exported["missing"]) == (3, [])
        # Exporting is no use.
        assert {entry.uses for entry in AdminClient(one.address).entries()} == {0}
    # Into a folder that is made for it.
    folder = cli("store", "import", bundle, "--key-file", keys, "--json")
    assert answer(folder) == {"stored": 3, "present": 0, "absent": 0, "refused": {}}
    assert answer(cli("store", "import", bundle, "--key-file", keys, "--json"))["present"] == 3
    shown = answer(cli("store", "show", key_of(GRAPHS[0]), "--json"))
    assert (shown["nodes"], shown["job"], shown["key_parts"]) == (7, "job", {"a": "b"})
    # And through a daemon, which has the keys by its settings as the command has.
    with running_daemon(tmp_path / "two", shared_store_keys=keys) as two:
        env = of(cli, two) | {"INDUCTORD_SHARED_STORE_KEYS": keys}
        assert answer(cli("store", "import", bundle, "--json", env=env))["stored"] == 3
        async with rank(two.address) as asking:
            got = [await asking.fetch(key_of(graph)) for graph in GRAPHS]
        assert [each.artifact for each in got] == made
        assert {each.served for each in got} == {SERVED_HIT}
        assert (two.status().totals.compiles, nonzero(two, IMPORTS)) == (0, {"stored": 3})
        text = cli("store", "import", bundle, env=env)
        assert "0 stored, 3 were there already" in text.stdout
        unsigned = cli("store", "import", bundle, "--unsigned", env=env)
        assert (unsigned.returncode, "signed artifacts only" in unsigned.stderr) == (2, True)


def sealed(graph: bytes, content: bytes, keys: Path | None) -> bytes:
    entry = Entry(key=key_of(graph), size=len(content), sha256=hashlib.sha256(content).digest())
    return seal(entry, "", SEALED_CONTENT_ARTIFACT, read(keys) if keys else None) + content


def test_a_daemon_takes_only_what_one_of_its_keys_signed(daemon: DaemonProcess, tmp_path: Path) -> None:
    keys, other = key_file(tmp_path), key_file(tmp_path, "other")
    key = key_of(GRAPHS[0])
    with (
        AdminClient(daemon.address) as without,
        pytest.raises(RequestFailed, match="shared_store_keys"),
    ):
        without.put_artifact(key, sealed(GRAPHS[0], b"content", keys))
    with (
        running_daemon(tmp_path / "with", shared_store_keys=keys) as with_keys,
        AdminClient(with_keys.address) as admin,
    ):
        good = sealed(GRAPHS[0], b"content" * 300_000, keys)
        for bad, reason in (
            (sealed(GRAPHS[0], b"evil", other), "unknown_key"),
            (sealed(GRAPHS[0], b"evil", None), "unsigned"),
            (sealed(GRAPHS[1], b"content", keys), "other_key"),
            (good[:-1] + b"!", "wrong_digest"),
        ):
            refused = admin.put_artifact(key, bad)
            assert (refused.outcome, refused.reason) == (PUT_OUTCOME_REFUSED, reason)
        assert admin.put_artifact(key, good).outcome == PUT_OUTCOME_STORED
        assert admin.put_artifact(key, good).outcome == PUT_OUTCOME_PRESENT
        assert admin.read_artifact(key) == b"content" * 300_000
        counted = {"unknown_key": 1, "unsigned": 1, "other_key": 1, "wrong_digest": 1, "stored": 1, "present": 1}
        assert nonzero(with_keys, IMPORTS) == counted
        with with_keys.channel() as channel:
            put = AdminServiceStub(channel).PutArtifact
            for messages, code in (
                ([], grpc.StatusCode.INVALID_ARGUMENT),
                ([{"key": "../" + key, "size": 1}], grpc.StatusCode.INVALID_ARGUMENT),
                ([{"key": key, "size": 5, "chunk": b"1234"}], grpc.StatusCode.INVALID_ARGUMENT),
                ([{"key": key, "size": 4, "chunk": b"12"}, {"chunk": b"345"}], grpc.StatusCode.INVALID_ARGUMENT),
                ([{"key": key, "size": 1 << 50}], grpc.StatusCode.RESOURCE_EXHAUSTED),
            ):
                with pytest.raises(grpc.RpcError) as caught:
                    put(iter([PutArtifactRequest(**message) for message in messages]), timeout=60)
                assert caught.value.code() == code
        secrets = [path.read_text().splitlines()[1].split()[0] for path in (keys, other)]
        assert not [secret for secret in secrets if secret in with_keys.log()]


def test_what_is_sound_in_a_damaged_bundle_is_imported(cli: Cli, tmp_path: Path) -> None:
    keys, bundle = key_file(tmp_path), tmp_path / "bundle.tar"
    contents = {key_of(graph): graph * 100 for graph in GRAPHS}
    listed = [Listed(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in contents.items()]

    def give(key: str) -> tuple[Entry, bytes]:
        data = contents[key]
        return Entry(key=key, size=len(data), sha256=hashlib.sha256(data).digest()), data

    write_bundle(bundle, SEALED_CONTENT_ARTIFACT, listed, give, read(keys))
    with tarfile.open(bundle) as tar:
        third = tar.getmembers()[3].offset_data
    data = bytearray(bundle.read_bytes())
    data[third + 200] ^= 1
    bundle.write_bytes(data)
    result = cli("store", "import", str(bundle), "--key-file", str(keys), "--json")
    assert answer(result, 1)["stored"] == 2
    assert sum(answer(result, 1)["refused"].values()) == 1
    assert "what is sound in it was imported" in result.stderr
    for wrong, says in (
        (["--key-file", str(key_file(tmp_path, "other"))], "unknown_key"),
        ([], "needs keys that sign it"),
        (["--key-file", str(bundle)], "no file of keys"),
    ):
        refused = cli("store", "import", str(bundle), *wrong, "--json")
        assert refused.returncode in (1, 2)
        assert (says in refused.stderr, refused.stdout) == (True, "")
    assert len(answer(cli("store", "export", str(bundle), "--all", "--unsigned", "--json"))) == 4
    unsigned = cli("store", "import", str(bundle), "--unsigned", "--json")
    assert answer(unsigned)["present"] == 2
    assert cli("store", "export", str(bundle), "--unsigned").returncode == 2
    assert cli("store", "export", str(bundle), "--unsigned", "--key", "abcdef").returncode == 6


# Warming


def graphs_bundle(path: Path, keys: Path, graphs: list[bytes]) -> None:
    by_key = {key_of(graph): graph for graph in graphs}
    listed = [Listed(key, len(graph), hashlib.sha256(graph).hexdigest()) for key, graph in by_key.items()]

    def give(key: str) -> tuple[Entry, bytes]:
        graph = by_key[key]
        sha256 = hashlib.sha256(graph).digest()
        return Entry(key=key, size=len(graph), sha256=sha256, nodes=5, kind=GRAPH_KIND_BACKWARD), graph

    write_bundle(path, SEALED_CONTENT_GRAPH, listed, give, read(keys))


async def test_recorded_graphs_are_compiled_before_anybody_asks(cli: Cli, tmp_path: Path) -> None:
    keys, bundle = key_file(tmp_path), tmp_path / "graphs.tar"
    failing = json.dumps([["fail", "scripted trouble"]]).encode()
    graphs_bundle(bundle, keys, [*GRAPHS, failing])
    with running_daemon(tmp_path / "one") as daemon:
        async with rank(daemon.address) as asking:
            await asking.compile(GRAPHS[0])
        result = cli("warm", str(bundle), "--key-file", str(keys), "--json", env=of(cli, daemon))
        summary = answer(result, 1)
        assert (summary["graphs"], summary["compiled"], summary["stored"], summary["absent"]) == (4, 2, 1, 0)
        (failed,) = summary["failed"]
        assert failed == {"key": key_of(failing), "reason": "compile_error", "message": "scripted trouble"}
        assert "ranks will compile what is missing" in result.stderr
        async with rank(daemon.address) as asking:
            answers = [await asking.fetch(key_of(graph)) for graph in GRAPHS]
        assert {each.served for each in answers} == {SERVED_HIT}
        assert daemon.status().totals.compiles == 4
        (entry,) = (entry for entry in AdminClient(daemon.address).entries() if entry.key == key_of(GRAPHS[1]))
        assert (entry.kind, entry.nodes, entry.job) == (GRAPH_KIND_BACKWARD, 5, "warm")


def test_warming_starts_a_daemon_and_refuses_what_is_not_signed(cli: Cli, tmp_path: Path) -> None:
    keys, bundle = key_file(tmp_path), tmp_path / "graphs.tar"
    graphs_bundle(bundle, keys, GRAPHS)
    wrong = cli("warm", str(bundle), "--key-file", str(key_file(tmp_path, "other")))
    assert (wrong.returncode, "unknown_key" in wrong.stderr, cli.daemon_pid()) == (1, True, None)
    assert answer(cli("warm", str(bundle), "--key-file", str(keys), "--json"))["compiled"] == len(GRAPHS)
    assert cli.daemon_pid() is not None
    text = cli("warm", str(bundle), "--key-file", str(keys))
    assert (text.returncode, "3 graphs: 0 compiled, 3 were stored already" in text.stdout) == (0, True)
    assert cli("warm", str(tmp_path / "absent.tar"), "--unsigned").returncode == 1


# Recording

RANK = """
import hashlib, json, os, pathlib, sys
from inductord.compiler.recorder import Recorder
from inductord.v1.compiler_pb2 import OpenCompile
assert os.listdir(os.environ["TORCHINDUCTOR_CACHE_DIR"]) == []
folder = pathlib.Path(os.environ["INDUCTORD_RECORD_DIR"])
keys = [hashlib.sha256(name.encode()).hexdigest() for name in "abc"]
for key in keys[:2]:
    Recorder(folder).keep(OpenCompile(key=key), lambda: b"graph")
(folder / f"{keys[2]}.graph").write_bytes(b"half of a")
fields = {"requests": "4", "keys": [*keys, "f" * 64], "rank": 0, "world_size": 1, "pid": 1, "job": "job"}
(pathlib.Path(os.environ["INDUCTORD_REPORT_DIR"]) / "rank-0-1.json").write_text(json.dumps(fields))
sys.exit(7)
"""


def test_a_recorded_command_keeps_its_exit_code_and_what_is_lacking_is_counted(cli: Cli, tmp_path: Path) -> None:
    keys, file = key_file(tmp_path), tmp_path / "graphs.tar"
    nowhere = ("--address", "unix:/proc/nowhere/d.sock", "--to", str(file))
    command = ("--", sys.executable, "-c", RANK)
    result = cli("record", *nowhere, "--key-file", str(keys), *command)
    assert result.returncode == 7
    # One that no file came for, and one whose file is damaged.
    assert f"2 graphs recorded in {file}. 2 graphs could not be" in result.stderr
    with BundleReader(file, SEALED_CONTENT_GRAPH, read(keys), 100) as reader:
        assert [member.refusal for member in reader.members()] == [None, None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graphs.tar", "keys"]
    # What cannot end well does not begin.
    assert cli("record", *nowhere, *command).returncode == 2
    unwritable = ("--to", "/proc/nowhere/graphs.tar", "--unsigned")
    assert cli("record", *unwritable, *command).returncode == 1


def test_keys_are_made_and_never_shown(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    made = [cli("store", "new-key", str(file), *flags) for flags in ((), ("--standby",), ())]
    assert [result.returncode for result in made] == [0, 0, 0]
    assert "3 keys in" in made[-1].stdout
    secrets = [key.hex() for key in read(file).keys]
    assert len(set(secrets)) == 3
    assert not [secret for secret in secrets if secret in "".join(result.stdout + result.stderr for result in made)]
    file.write_text("nonsense")
    refused = cli("store", "new-key", str(file))
    assert (refused.returncode, "nonsense" in refused.stderr) == (1, False)
    shown = cli("config", env={"INDUCTORD_SHARED_STORE": "ftp://user:hunter2@host/x"})
    assert "ftp://…@host/x" in shown.stdout
    assert "hunter2" not in shown.stdout
