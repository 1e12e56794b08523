"""``inductord run``: the command behaves as without it, a daemon is there when it can be, and the report tells."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from support.cli import INDUCTORD, Cli
from support.daemon import wait_until
from support.rank import key_of, rank

from inductord.daemon.client import AdminClient, DaemonDraining
from inductord.v1.compiler_pb2 import COMPILE_STATE_COMPILING

pytestmark = pytest.mark.wire

# Nobody can make a socket there, so no daemon is started and tests of the command alone stay quick.
NOWHERE = ("--address", "unix:/proc/nowhere/d.sock", "--report", "none")

RANK = """
import json, os, sys
fields = {"requests": "3", "led": "2", "joined": "1", "keys": ["a", "b"], "saved_seconds": 1.5,
          "rank": 0, "world_size": 1, "pid": os.getpid(), "job": os.environ["INDUCTORD_JOB"]}
path = os.path.join(os.environ["INDUCTORD_REPORT_DIR"], f"rank-0-{os.getpid()}.json")
with open(path, "w") as file:
    json.dump(fields, file)
"""


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["--", "sh", "-c", "exit 0"], 0),
        (["--", "sh", "-c", "exit 7"], 7),
        (["--", "sh", "-c", "kill -TERM $$"], 128 + 15),
        (["--", "sh", "-c", "kill -KILL $$"], 128 + 9),
        (["--", "no-such-command"], 127),
        (["--", "/etc/passwd"], 126),
        (["sh", "-c", "exit 3"], 3),
    ],
)
def test_the_exit_code_is_the_commands(cli: Cli, command: list[str], code: int) -> None:
    assert cli("run", *NOWHERE, *command).returncode == code


def test_without_a_daemon_the_command_runs_and_the_reason_is_said(cli: Cli) -> None:
    result = cli("run", *NOWHERE, *python("print('trained')"))
    assert (result.returncode, result.stdout) == (0, "trained\n")
    assert "/proc/nowhere" in result.stderr
    assert "compiles as ever" in result.stderr


def test_settings_that_cannot_be_used_do_not_stop_training(cli: Cli) -> None:
    result = cli("run", "--report", "none", *python("print('trained')"), env={"INDUCTORD_MAX_WORKERS": "many"})
    assert (result.returncode, result.stdout) == (0, "trained\n")
    assert "INDUCTORD_MAX_WORKERS" in result.stderr


def test_the_command_gets_its_environment(cli: Cli) -> None:
    code = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('INDUCTORD')}))"
    result = cli("run", *NOWHERE, *python(code))
    env = json.loads(result.stdout)
    assert env["INDUCTORD"] == "1"
    assert env["INDUCTORD_ADDRESS"] == "unix:/proc/nowhere/d.sock"
    assert env["INDUCTORD_JOB"]
    assert not Path(env["INDUCTORD_REPORT_DIR"]).exists()  # made for the run, and removed after it
    kept = cli("run", *NOWHERE, *python(code), env={"INDUCTORD_JOB": "mine"})
    assert json.loads(kept.stdout)["INDUCTORD_JOB"] == "mine"


def test_a_hook_that_is_switched_off_is_warned_about(cli: Cli) -> None:
    result = cli("run", *NOWHERE, *python("pass"), env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert result.returncode == 0
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in result.stderr


def test_a_daemon_is_started_once_and_outlives_the_command(cli: Cli) -> None:
    # The commands return although the daemon lives on: it holds none of their pipes.
    first = cli("run", *python("pass"))
    pid = cli.daemon_pid()
    assert first.returncode == 0, first.stderr
    assert pid is not None
    assert os.getsid(pid) == pid
    assert cli("run", *python("pass")).returncode == 0
    assert cli.daemon_pid() == pid
    status = json.loads(cli("status", "--json").stdout)
    assert status["pid"] == pid
    assert status["store"]["path"] == str(cli.store)


def test_the_daemon_ends_at_sigterm_although_its_parent_held_signals_back(cli: Cli) -> None:
    assert cli("run", *python("pass")).returncode == 0
    pid = cli.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not cli.socket.exists(), "end of the daemon")


def test_two_runs_at_once_have_one_daemon(cli: Cli) -> None:
    show = "import os; print(os.environ['INDUCTORD_ADDRESS'])"
    with cli.start("run", *python(show)) as first, cli.start("run", *python(show)) as second:
        results = [process.communicate(timeout=120) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0]
    for output, errors in results:
        assert output == f"{cli.address}\n"
        assert "could not be started" not in errors
        assert "did not answer" not in errors
    assert cli("status").returncode == 0


def test_a_frozen_daemon_does_not_hold_the_command_up(cli: Cli) -> None:
    with cli.serving() as daemon:
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            result = cli("run", *python("print('trained')"))
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
    assert (result.returncode, result.stdout) == (0, "trained\n")
    assert "did not answer in time" in result.stderr


def test_a_stray_module_in_the_training_folder_does_not_end_up_in_the_daemon(cli: Cli, tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    for name in ("grpc.py", "click.py", "daemon.py"):
        (job / name).write_text("raise RuntimeError('stray')\n")
    result = subprocess.run(
        [Path(sys.executable).with_name("inductord"), "run", "--", "true"],
        cwd=job,
        env=cli.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0
    assert "could not be started" not in result.stderr
    assert cli.daemon_pid() is not None


def test_the_report_from_the_ranks(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    result = cli("run", "--report", "json", "--report-file", str(file), *python(RANK))
    report = json.loads(result.stderr.splitlines()[-1])
    assert report == json.loads(file.read_text())
    assert (report["ranks"], report["graphs"], report["requests"], report["compiles"]) == (1, 2, 3, 2)
    assert (report["joined"], report["hits"], report["fallbacks_total"]) == (1, 0, 0)


def test_the_report_for_people_goes_to_stderr(cli: Cli) -> None:
    result = cli("run", *python(RANK + "print('loss 0.1')"))
    assert result.stdout == "loss 0.1\n"
    assert "2 distinct graphs" in result.stderr
    assert "2 compiled, 1 joined" in result.stderr
    assert "\x1b" not in result.stderr


def test_a_daemon_that_is_gone_at_the_end_is_said(cli: Cli) -> None:
    code = RANK + (
        "import time, signal\n"
        "from inductord.daemon.client import listener_pid\n"
        "os.kill(listener_pid(os.environ['INDUCTORD_ADDRESS']), signal.SIGKILL)\n"
        "while listener_pid(os.environ['INDUCTORD_ADDRESS']): time.sleep(0.01)\n"
    )
    result = cli("run", *python(code))
    assert result.returncode == 0
    assert "2 compiled, 1 joined" in result.stderr
    assert "No daemon answers" in result.stderr


def test_a_report_that_cannot_be_written_costs_no_exit_code(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "no" / "such" / "folder.json"
    result = cli("run", "--report-file", str(target), "--", "sh", "-c", "exit 5")
    assert result.returncode == 5
    assert "could not be written" in result.stderr


COUNT_SIGNALS = """
import signal, sys, time
seen = []
signal.signal(signal.SIGINT, lambda *_: (seen.append("INT"), print("got INT", flush=True)))
def leave(*_):
    print("saw", ",".join(seen), flush=True)
    sys.exit(9)
signal.signal(signal.SIGUSR1, leave)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR2", "SIGQUIT"])
def test_signals_are_passed_on(cli: Cli, name: str) -> None:
    code = (
        f"import signal, sys, time\nsignal.signal(signal.{name}, lambda *_: sys.exit(42))\n"
        "print('ready', flush=True)\nwhile True: time.sleep(0.05)"
    )
    with cli.start("run", *NOWHERE, *python(code)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(getattr(signal, name))
        assert process.wait(timeout=60) == 42


def test_an_interrupt_sent_to_us_alone_is_passed_on_once(cli: Cli) -> None:
    with cli.start("run", *NOWHERE, *python(COUNT_SIGNALS)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "got INT\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "saw INT\n"
        assert process.wait(timeout=60) == 9


def test_an_interrupt_from_the_terminal_reaches_the_command_once(cli: Cli) -> None:
    ours, theirs = pty.openpty()

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [*INDUCTORD, "run", *NOWHERE, *python(COUNT_SIGNALS)],
        env=cli.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=own_terminal,
    )
    os.close(theirs)
    try:
        with os.fdopen(ours, "r+b", buffering=0) as terminal:
            seen = b""
            while b"ready" not in seen:
                seen += terminal.read(1024)
            terminal.write(b"\x03")
            while b"got INT" not in seen:
                seen += terminal.read(1024)
            # Signals are passed on in order: a second interrupt would come before this.
            process.send_signal(signal.SIGUSR1)
            while b"saw" not in seen or not seen.endswith(b"\n"):
                seen += terminal.read(1024)
            assert b"saw INT\r\n" in seen
            assert process.wait(timeout=60) == 9
    finally:
        process.kill()
        process.wait()


def test_the_command_shares_the_terminals_group(cli: Cli) -> None:
    # Otherwise reading from the terminal would stop it.
    with cli.start("run", *NOWHERE, *python("import os; print(os.getpgrp())")) as process:
        output, _ = process.communicate(timeout=60)
        assert int(output) == os.getpgrp()


def test_inherited_files_stay_open_for_the_command(cli: Cli) -> None:
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [*INDUCTORD, "run", *NOWHERE, *python(f"import os; os.write({writing}, b'hello')")],
            env=cli.env,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
        )
        assert process.wait(timeout=60) == 0
        assert os.read(reading, 100) == b"hello"
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_daemon_that_is_being_stopped_is_waited_for(cli: Cli, tmp_path: Path) -> None:
    release, trained = tmp_path / "release", tmp_path / "trained"
    graph = json.dumps([["wait_for", str(release)]]).encode()
    with cli.serving() as old:
        async with rank(cli.address) as client:
            stream = await client.open(key_of(graph))
            await stream.until("send_graph")
            await stream.upload(graph)
            await stream.until_state(COMPILE_STATE_COMPILING)
            with cli.start("stop", "--drain", "60") as stop:
                wait_until(lambda: draining(cli.address), "the daemon drains")
                with cli.start("run", "--", "touch", str(trained)) as interrupted:
                    assert interrupted.stderr is not None
                    assert "is being stopped" in interrupted.stderr.readline()
                    interrupted.send_signal(signal.SIGTERM)
                    assert interrupted.wait(timeout=60) == 128 + signal.SIGTERM
                    assert "not started" in interrupted.stderr.read()
                assert not trained.exists()
                with cli.start("run", "--", "touch", str(trained)) as waiting:
                    assert waiting.stderr is not None
                    assert "is being stopped" in waiting.stderr.readline()
                    release.touch()
                    assert (await stream.finish()).artifact
                    assert waiting.wait(timeout=60) == 0
                    assert "could not be started" not in waiting.stderr.read()
                assert trained.exists()
                assert stop.wait(timeout=60) == 0
        assert old.wait(timeout=60) == 0
        assert cli.daemon_pid() not in (None, old.pid)


def draining(address: str) -> bool:
    with AdminClient(address) as client:
        try:
            client.check_health()
        except DaemonDraining:
            return True
    return False


def test_a_store_that_another_daemon_has_is_said(cli: Cli, tmp_path: Path) -> None:
    with cli.serving() as other:
        result = cli("run", "--address", f"unix:{tmp_path}/mine.sock", *python("print('trained')"))
    assert (result.returncode, result.stdout) == (0, "trained\n")
    assert "could not be started (exit code 4)" in result.stderr
    assert str(other.pid) in result.stderr
