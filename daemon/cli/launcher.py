"""Finds the daemon that a job shall use, and starts one when there is none.

What a daemon does wrong is an answer, not an error: a job without a daemon is a job that compiles as ever.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from inductord.compiler.address import TcpAddress, ensure_private_dir, parse_address, private_dir, socket_path
from inductord.compiler.versions import PROTOCOL
from inductord.daemon.cli.departure import Departure
from inductord.daemon.cli.exits import Exit
from inductord.daemon.cli.process import has_ended, start_detached
from inductord.daemon.client import AdminClient, ClientError, DaemonAbsent, DaemonDraining, listener_pid

_START_BOUND_S = 20.0
# As long as a daemon drains unless it is told otherwise, and some time to end its workers.
_DRAIN_BOUND_S = 40.0
_BUSY_BOUND_S = 10.0
_BUSY_RETRY_S = 0.5
_BUSY = (Exit.SOCKET_BUSY, Exit.STORE_BUSY)
_POLL_S = 0.05
_LOG_BYTES = 8 << 20
_TAIL_BYTES = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The daemon for a job. ``problem``: why there is none, or why it is of no use, as a sentence for people."""

    address: str
    started: bool = False
    pid: int | None = None
    log: Path | None = None
    problem: str | None = None


class Launcher:
    """Looks for a daemon at ``address``; starts ``inductord serve`` with ``flags`` when nobody listens.

    ``say`` takes a remark for people. ``pause`` is called between looks with seconds to sleep, and may raise to give up.
    ``mask``: the signal mask that the daemon gets.
    """

    def __init__(
        self,
        address: str,
        flags: Sequence[str],
        env: Mapping[str, str],
        *,
        say: Callable[[str], None],
        pause: Callable[[float], None],
        mask: Collection[int],
    ) -> None:
        self._address = address
        # -P: a training folder with a module named like one of ours must not end up in the daemon.
        self._argv = [sys.executable, "-P", "-m", "inductord.daemon", "--address", address, *flags]
        self._env = env
        self._say = say
        self._pause = pause
        self._mask = mask

    def find_or_start(self) -> Found:
        """The daemon, running and healthy, or why there is none.

        Raises:
            AddressError: the address cannot be used.
            OSError: the daemon cannot be started.
        """
        with AdminClient(self._address) as client:
            try:
                client.check_health()
            except (DaemonAbsent, DaemonDraining) as error:
                if isinstance(parse_address(self._address), TcpAddress):
                    problem = f"{error} Over TCP a running daemon is used; inductord starts one on a Unix socket only."
                    return Found(self._address, problem=problem)
                waited = self._outwait() if isinstance(error, DaemonDraining) else None
                return Found(self._address, problem=waited) if waited else self._start(client)
            except ClientError as error:
                return Found(self._address, problem=str(error))
            return self._checked(client)

    def _outwait(self) -> str | None:
        """Wait for the end of a daemon that is being stopped. Returns why not, if it stays."""
        self._say("the daemon is being stopped; waiting for its end to start another.")
        deadline = time.monotonic() + _DRAIN_BOUND_S
        with Departure(self._address) as departure:
            while not departure.over():
                if time.monotonic() > deadline:
                    return f"the daemon at {self._address} is being stopped and still there after {_DRAIN_BOUND_S:g} s."
                self._pause(_POLL_S)
        return None

    def _start(self, client: AdminClient) -> Found:
        log = self._prepare_log()
        pid: int | None = start_detached(self._argv, self._env, log, self._mask)
        began = time.monotonic()
        while time.monotonic() - began < _START_BOUND_S:
            try:
                client.check_health()
            except ClientError:
                # Not yet. Whether it ever will, the process says.
                pid = pid or start_detached(self._argv, self._env, log, self._mask)
                code = has_ended(pid)
            else:
                started = pid is not None and pid == listener_pid(self._address)
                return self._checked(client, started=started, pid=pid, log=log)
            if code is None:
                self._pause(_POLL_S)
                continue
            if code not in _BUSY or time.monotonic() - began > _BUSY_BOUND_S:
                reason = f"a daemon could not be started (exit code {code}): {_last_words(log)} Its log: {log}."
                return Found(self._address, log=log, problem=reason)
            # Another job of this node was faster and its daemon is coming up, or an old daemon is about to end.
            self._pause(_BUSY_RETRY_S)
            pid = None
        reason = f"the daemon did not answer within {_START_BOUND_S:g} s. Its log: {log}."
        return Found(self._address, log=log, problem=reason)

    def _checked(
        self, client: AdminClient, *, started: bool = False, pid: int | None = None, log: Path | None = None
    ) -> Found:
        problem = None
        try:
            version = client.status().version
        except ClientError as error:
            problem = str(error)
        else:
            if version.protocol != PROTOCOL:
                problem = (
                    f"the daemon at {self._address} is release {version.release} and speaks protocol "
                    f"{version.protocol}, ranks speak {PROTOCOL}. Stop it with `inductord stop`."
                )
        return Found(self._address, started=started, pid=pid, log=log, problem=problem)

    def _prepare_log(self) -> Path:
        socket = socket_path(self._address)
        folder = socket.parent
        if folder == private_dir() or not folder.exists():
            ensure_private_dir(folder)
        log = folder / f"{socket.stem}.log"
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        return log


def _last_words(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"its log cannot be read: {error.strerror}."
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else "it said nothing."
