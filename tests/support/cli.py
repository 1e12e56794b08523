"""The command line as users run it: a process of its own, in an environment without settings of ours."""

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
from support.daemon import wait_until
from support.pools import DEADLINE_S, SCRIPTED

from inductord.daemon.client import listener_pid

INDUCTORD = [sys.executable, "-c", "from inductord.daemon.cli import main; main()"]


class Cli:
    """Runs commands against one address and one store in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "d.sock"
        self.address = f"unix:{self.socket}"
        self.store = folder / "store"
        outer = {name: value for name, value in os.environ.items() if not name.startswith("INDUCTORD")}
        self.env = outer | {
            "HOME": str(folder),
            "INDUCTORD_ADDRESS": self.address,
            "INDUCTORD_STORE_PATH": str(self.store),
            "INDUCTORD_WORKER_COMMAND": shlex.join(SCRIPTED),
            "NO_COLOR": "1",
        }

    def __call__(self, *args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run to the end. Output is captured, so this returns only when nobody holds its pipes any more."""
        return subprocess.run(
            [*INDUCTORD, *args],
            env=self.env | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S * 2,
            check=False,
        )

    @contextlib.contextmanager
    def start(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """Start and go on; ended by force at the end of the context if need be."""
        process = subprocess.Popen(
            [*INDUCTORD, *args],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def serving(self, *flags: str) -> Iterator[subprocess.Popen[str]]:
        """A daemon in the foreground that is ready."""
        with self.start("serve", *flags) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("inductord serves at"), line
            yield process

    def daemon_pid(self) -> int | None:
        """Of whoever listens at the address."""
        return listener_pid(self.address)

    def end_daemon(self) -> None:
        """End by force whoever listens at the address, and who was started to."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # it has ended, or is not ours
                if {"inductord.daemon", self.address} <= set(process.cmdline()):
                    process.kill()
        wait_until(lambda: self.daemon_pid() is None, "end of the daemon")
