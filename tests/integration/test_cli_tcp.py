"""The command line over TCP, and the command that makes tokens."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.certificates import Authority
from support.cli import Cli
from support.daemon import DaemonProcess
from support.pools import script
from support.rank import key_of
from support.tcp import ask, secured, tcp_address

from inductord.daemon.auth import tokens
from inductord.daemon.cli.exits import Exit

pytestmark = pytest.mark.integration


def test_a_tenant_uses_the_command_line_over_tcp(
    start_daemon: Callable[..., DaemonProcess], cli: Cli, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    shown, file = authority.issue("daemon"), tmp_path / "tokens"
    made = cli("token", "new", "--tenant", "acme", "--file", str(file))
    token = made.stdout.strip()
    assert (made.returncode, tokens.parse(file.read_text())) == (0, {tokens.digest(token): "acme"})
    assert token not in made.stderr
    daemon = start_daemon(listen="localhost:0", tls_cert=shown.cert, tls_key=shown.key, tokens=file)
    address = tcp_address(daemon)
    graph = script(["size", 100])
    ask(address, secured(authority.ca, token=token), graph, job="llama")
    env = {"INDUCTORD_ADDRESS": address, **secured(authority.ca, token=token)}

    status = json.loads(cli("status", "--json", env=env).stdout)
    assert (status["listen"], [job["job"] for job in status["jobs"]]) == (daemon.status().listen, ["llama"])
    assert f"tcp://{status['listen']}" in cli("status", env=env).stdout
    assert key_of(graph)[:12] in cli("store", "ls", env=env).stdout
    assert cli("store", "show", key_of(graph)[:12], env=env).returncode == Exit.OK
    assert f"acme/{key_of(graph)[:12]}" in cli("store", "ls", env={"INDUCTORD_ADDRESS": daemon.address}).stdout

    stop = cli("stop", env=env)
    assert (stop.returncode, "owner" in stop.stderr) == (Exit.FAILED, True)
    stranger = cli("status", env={**env, "INDUCTORD_TOKEN": ""})
    assert (stranger.returncode, "wants a token" in stranger.stderr) == (Exit.FAILED, True)
    doctor = cli("doctor", "--json", env={**env, "INDUCTORD_TLS_SERVER_NAME": "elsewhere"})
    assert "elsewhere" in doctor.stdout
    # `run` finds it, starts none of its own, and its command has what it needs to connect.
    run = cli("run", "--", "sh", "-c", "echo $INDUCTORD_ADDRESS", env=env)
    assert (run.returncode, run.stdout.strip()) == (0, address)
    assert not cli.socket.exists()
    daemon.stop()
    gone = cli("store", "ls", env=env)
    assert (gone.returncode, "nobody listens" in gone.stderr) == (Exit.NO_DAEMON, True)
    run = cli("run", "--", "true", env=env)
    assert (run.returncode, "starts one on a Unix socket only" in run.stderr) == (0, True)
    for said in (daemon.log(), made.stderr, stop.stderr, stranger.stderr, gone.stderr, run.stderr):
        assert token not in said


def test_a_token_needs_a_name_and_a_place(cli: Cli, tmp_path: Path) -> None:
    for arguments, said in (
        (["--tenant", "a/b", "--file", str(tmp_path / "tokens")], "--tenant"),
        (["--tenant", "acme"], "--file"),
    ):
        ended = cli("token", "new", *arguments)
        assert (ended.returncode, ended.stdout, said in ended.stderr) == (Exit.USAGE, "", True)
    ended = cli("token", "new", "--tenant", "acme", "--file", str(tmp_path / "absent" / "tokens"))
    assert (ended.returncode, ended.stdout) == (Exit.FAILED, "")
    assert list(tmp_path.glob("*/tokens")) == []


def test_a_daemon_has_its_own_address_on_a_socket(cli: Cli) -> None:
    ended = cli("serve", "--address", "tcp://127.0.0.1:7777")
    assert (ended.returncode, "the setting `listen`" in ended.stderr) == (Exit.FAILED, True)
