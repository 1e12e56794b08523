"""Starting processes from ``inductord run``: its command, and a daemon that outlives it.

``posix_spawn`` rather than ``subprocess``, because it gives the new process its own signal mask without running Python
between fork and exec, while gRPC's threads exist.
"""

import os
import signal
from collections.abc import Collection, Mapping
from pathlib import Path

from inductord.daemon.cli.exits import SIGNAL_BASE
from inductord.daemon.cli.signals import SignalGate

# Python ignores these for itself; what it starts shall not inherit that.
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


def start_command(argv: list[str], env: Mapping[str, str], mask: Collection[int]) -> int:
    """Start a command that shares terminal, group and files with this process. Returns its pid.

    Raises:
        OSError: it cannot be executed.
    """
    return os.posix_spawnp(argv[0], argv, env, setsigmask=mask, setsigdef=_PYTHON_IGNORES)


def start_detached(argv: list[str], env: Mapping[str, str], log: Path, mask: Collection[int]) -> int:
    """Start a process in a session of its own that writes to ``log`` only. Returns its pid.

    Every other inherited file is closed in it: a pipe that it kept open would make whoever reads this process's output
    wait for the daemon's end.

    Raises:
        OSError: it cannot be executed, or the log cannot be written.
    """
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log_fd, 1),
            (os.POSIX_SPAWN_DUP2, log_fd, 2),
        ]
        actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable_files()]
        return os.posix_spawn(
            argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=mask, setsigdef=_PYTHON_IGNORES
        )
    finally:
        os.close(log_fd)


def wait_for_command(pid: int, signals: SignalGate) -> int:
    """Pass signals on until the process ends. Returns its exit code, or 128 + n when signal n ended it."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNAL_BASE - code
        signum = signals.wait()
        if signum is not None:
            os.kill(pid, signum)


def has_ended(pid: int) -> int | None:
    """The exit code of a child that has ended (negative: by that signal), else ``None``. Reaps it: ask once more and it
    raises ``ChildProcessError``."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _inheritable_files() -> list[int]:
    inheritable = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                inheritable.append(fd)
        except OSError:
            # The file by which the folder itself was listed is closed again.
            continue
    return inheritable
