"""Commands against a real daemon, and the store's commands without one."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from support.cli import Cli
from support.daemon import wait_until

from inductord.daemon.store import Meta, Store
from inductord.v1.compiler_pb2 import GRAPH_KIND_BACKWARD, GRAPH_KIND_FORWARD, Toolchain

pytestmark = pytest.mark.wire

KEY_A = "aa" * 32
KEY_B = "ab" * 32


@pytest.fixture
def filled(cli: Cli) -> Cli:
    """Two entries whose keys differ in one part and in the torch they were made under."""

    async def fill() -> None:
        store = await Store.open(cli.store, max_bytes=1 << 30, memory_bytes=0)
        for key, kind, torch, part in (
            (KEY_A, GRAPH_KIND_FORWARD, "2.12.0", "1111"),
            (KEY_B, GRAPH_KIND_BACKWARD, "2.13.0", "2222"),
        ):
            meta = Meta(kind, 2.5, Toolchain(torch=torch), {"graph": part, "config": "same"}, 812, "llama")
            await store.publish(key, os.urandom(4096), meta)
        await store.close()

    asyncio.run(fill())
    return cli


def test_the_life_of_a_daemon(cli: Cli) -> None:
    with cli.serving() as daemon:
        status = json.loads(cli("status", "--json").stdout)
        assert status["pid"] == daemon.pid
        assert status["address"] == cli.address
        assert status["store"]["path"] == str(cli.store)
        assert f"pid {daemon.pid}" in cli("status").stdout
        healthy = cli("health")
        assert (healthy.returncode, healthy.stdout, healthy.stderr) == (0, "", "")
        stopped = cli("stop", "--json")
        assert json.loads(stopped.stdout)["was_running"] is True
        # The command returns when the process is gone, so its exit code is there at once.
        assert daemon.wait(timeout=5) == 0
    assert not cli.socket.exists()
    assert cli("health").returncode == 5
    again = cli("stop", "--json")
    assert (again.returncode, json.loads(again.stdout)["was_running"]) == (0, False)
    absent = cli("status")
    assert absent.returncode == 5
    assert absent.stdout == ""
    assert "there is no socket" in absent.stderr
    assert "inductord serve" in absent.stderr


def test_a_second_daemon_is_refused_and_the_first_goes_on(cli: Cli, tmp_path: Path) -> None:
    with cli.serving() as daemon:
        same_socket = cli("serve", "--store", str(tmp_path / "other"))
        assert same_socket.returncode == 3, same_socket.stderr
        same_store = cli("serve", "--address", f"unix:{tmp_path}/other.sock")
        assert same_store.returncode == 4, same_store.stderr
        assert str(daemon.pid) in same_store.stderr
        assert json.loads(cli("status", "--json").stdout)["pid"] == daemon.pid


def test_a_killed_daemon_leaves_a_socket_that_is_called_a_leftover(cli: Cli) -> None:
    with cli.serving() as daemon:
        daemon.kill()
        daemon.wait()
        found = cli("status")
        assert found.returncode == 5
        assert "leftover" in found.stderr
    with cli.serving():
        assert cli("status").returncode == 0


def test_a_frozen_daemon_is_told_from_an_absent_one(cli: Cli) -> None:
    with cli.serving() as daemon:
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            found = cli("status")
            assert found.returncode == 5
            assert "did not answer in time" in found.stderr
            findings = {each["check"]: each for each in json.loads(cli("doctor", "--json").stdout)["findings"]}
            assert findings["daemon"]["level"] == "fail"
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        assert cli("status").returncode == 0


def test_watch_goes_on_until_the_daemon_ends(cli: Cli) -> None:
    with cli.serving() as daemon, cli.start("status", "--watch", "--json", "--interval", "0.1") as watch:
        assert watch.stdout is not None
        lines = [json.loads(watch.stdout.readline()) for _ in range(3)]
        assert [line["pid"] for line in lines] == [daemon.pid] * 3
        assert cli("stop").returncode == 0
        rest, _ = watch.communicate(timeout=60)
        assert json.loads(rest.splitlines()[-1])["draining"]
        assert watch.returncode == 0


def test_watch_tells_when_the_daemon_is_gone(cli: Cli) -> None:
    with cli.serving() as daemon, cli.start("status", "--watch", "--json", "--interval", "0.1") as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        os.kill(daemon.pid, signal.SIGKILL)
        watch.communicate(timeout=60)
        assert watch.returncode == 5


def test_watch_ends_quietly_when_interrupted(cli: Cli) -> None:
    with cli.serving(), cli.start("status", "--watch", "--interval", "0.1") as watch:
        assert watch.stdout is not None
        assert "workers busy" in watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        _, errors = watch.communicate(timeout=60)
        assert (watch.returncode, errors) == (0, "")


def test_the_store_is_the_same_seen_through_the_daemon_and_without(filled: Cli) -> None:
    commands = (["store", "ls", "--json"], ["store", "show", KEY_A[:8], "--json"], ["explain", KEY_A, KEY_B, "--json"])
    without = [filled(*command) for command in commands]
    with filled.serving():
        through = [filled(*command) for command in commands]
    assert [result.returncode for result in without + through] == [0] * 6
    assert [result.stdout for result in without] == [result.stdout for result in through]
    listed = [json.loads(line) for line in through[0].stdout.splitlines()]
    assert {entry["key"]: entry["kind"] for entry in listed} == {KEY_A: "forward", KEY_B: "backward"}
    difference = json.loads(through[2].stdout)
    assert difference["differ"] == {"graph": ["1111", "2222"], "toolchain.torch": ["2.12.0", "2.13.0"]}
    assert difference["equal"] == ["config"]


def test_what_people_see_of_the_store(filled: Cli) -> None:
    listed = filled("store", "ls")
    assert listed.returncode == 0
    for fact in (KEY_A[:12], "forward", "812", "4.0 KiB", "2 entries, 8.0 KiB"):
        assert fact in listed.stdout
    assert all(line == line.rstrip() for line in listed.stdout.splitlines())
    shown = filled("store", "show", KEY_B[:6])
    for fact in (KEY_B, "backward", "2.13.0", "2222", "llama"):
        assert fact in shown.stdout
    assert "2 of 3 parts differ" in filled("explain", KEY_A[:6], KEY_B[:6]).stdout


@pytest.mark.parametrize("through_daemon", [False, True])
def test_keys_that_are_not_there_or_not_clear(filled: Cli, through_daemon: bool) -> None:
    def check() -> None:
        assert filled("store", "show", "ffffff").returncode == 6
        assert filled("store", "show", "aaa").returncode == 2
        assert filled("explain", KEY_A, "0" * 64).returncode == 6

    if through_daemon:
        with filled.serving():
            check()
    else:
        check()


@pytest.mark.parametrize("through_daemon", [False, True])
def test_verify_sets_damaged_artifacts_aside(filled: Cli, through_daemon: bool) -> None:
    def check() -> None:
        blob = next(path for path in (filled.store / "blobs").glob("*/*"))
        content = bytearray(blob.read_bytes())
        content[100] ^= 1
        blob.write_bytes(content)
        found = filled("store", "verify", "--json")
        assert found.returncode == 1
        result = json.loads(found.stdout)
        assert result["checked"] == 2
        assert len(result["quarantined"]) == 1
        clean = filled("store", "verify")
        assert clean.returncode == 0
        assert "1 artifact checked, 0 damaged" in clean.stdout

    if through_daemon:
        with filled.serving():
            check()
    else:
        check()


def test_gc_shrinks_and_looking_does_not(filled: Cli) -> None:
    assert filled("store", "ls", env={"INDUCTORD_STORE_MAX_BYTES": "1MiB"}).returncode == 0
    result = json.loads(filled("store", "gc", "--max-bytes", "5KiB", "--json").stdout)
    assert (result["evicted"], result["bytes"]) == (1, 4096)
    assert filled("store", "gc", "--max-bytes", "much").returncode == 2
    with filled.serving():
        assert json.loads(filled("store", "gc", "--max-bytes", "0", "--json").stdout)["bytes"] == 0


def test_looking_at_a_store_that_is_not_there_makes_none(cli: Cli) -> None:
    found = cli("store", "ls")
    assert found.returncode == 6
    assert not cli.store.exists()


def test_a_store_of_another_daemon_is_busy(filled: Cli, tmp_path: Path) -> None:
    with filled.serving() as daemon:
        found = filled("store", "ls", "--address", f"unix:{tmp_path}/nobody.sock")
        assert found.returncode == 4
        assert str(daemon.pid) in found.stderr


def test_config_says_where_values_come_from(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('max_workers = 3\nlog_level = "debug"\n')
    found = json.loads(cli("config", "--config", str(file), "--json", env={"INDUCTORD_LOG_LEVEL": "error"}).stdout)
    assert found["max_workers"] == {"value": "3", "source": f"file {file}"}
    assert found["log_level"] == {"value": "error", "source": "env INDUCTORD_LOG_LEVEL"}
    assert found["max_queue"]["source"] == "default"
    file.write_text("max_wrokers = 3\n")
    wrong = cli("config", "--config", str(file))
    assert wrong.returncode == 2
    assert "max_workers" in wrong.stderr


def test_a_flag_of_serve_that_cannot_be_is_refused(cli: Cli) -> None:
    found = cli("serve", "--max-workers", "many")
    assert found.returncode == 2
    assert "max_workers (flag)" in found.stderr
    assert "Traceback" not in found.stderr


def test_doctor_is_content_and_says_so_to_scripts(cli: Cli) -> None:
    with cli.serving() as daemon:
        found = cli("doctor", "--json")
        report = json.loads(found.stdout)
        by_check = {finding["check"]: finding for finding in report["findings"]}
        assert f"pid {daemon.pid}" in by_check["daemon"]["found"]
        assert report["ok"] == (found.returncode == 0)
        failed = [finding for finding in report["findings"] if finding["level"] == "fail"]
        assert failed == []


def test_doctor_names_what_is_wrong(cli: Cli) -> None:
    found = cli("doctor", "--json", env={"CXX": "no-such-compiler", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert found.returncode == 1
    report = json.loads(found.stdout)
    level = {finding["check"]: finding["level"] for finding in report["findings"]}
    assert (report["ok"], level["C++ compiler"], level["hook"]) == (False, "fail", "warn")
    assert all(finding["mend"] for finding in report["findings"] if finding["level"] == "fail")


def test_help_of_every_command(cli: Cli) -> None:
    names = [line.split()[0] for line in cli("--help").stdout.partition("Commands:")[2].splitlines() if line.strip()]
    daemons = {"serve", "stop", "status", "report", "health", "store", "explain", "token", "config", "doctor"}
    assert daemons | {"run", "record", "warm"} == set(names)
    for name in names:
        helped = cli(name, "--help")
        assert helped.returncode == 0, helped.stderr
        assert helped.stdout.startswith("Usage: inductord")


def test_stop_waits_for_the_end_of_the_process(cli: Cli) -> None:
    with cli.start("serve") as daemon:
        wait_until(lambda: cli.daemon_pid() == daemon.pid, "daemon listens")
        assert cli("stop").returncode == 0
        assert not Path(f"/proc/{daemon.pid}/fd/0").exists()
