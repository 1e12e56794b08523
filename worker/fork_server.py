"""The fork server: imports once what every worker needs, and becomes the worker as often as the daemon asks.

Importing PyTorch and Inductor takes seconds of CPU; a fork of a process that has done so takes milliseconds and shares its
memory. Only a process with a single thread can be forked safely: locks that other threads hold stay locked in the fork.
"""

import contextlib
import dataclasses
import gc
import os
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import ForkEnded, ForkReply, ForkRequest, WorkerReady

MAX_MESSAGE_BYTES = 64 * 1024
"""Of one packet, either way."""


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """What a fork is to be: a worker that serves ``sock`` and writes to ``output``."""

    sock: socket.socket
    output: socket.socket
    request: ForkRequest


def serve(sock: socket.socket, toolchain: Toolchain, linger: float) -> Assignment | None:
    """Fork for each request on ``sock``, of type SOCK_SEQPACKET.

    Returns None in the server, once the peer has closed or nothing has run for ``linger`` seconds, and an assignment in each
    fork.
    """
    if why := _unfit():
        _say(sock, ForkReply(declined=why))
        return None
    # What is there now lives for ever: collecting it would write to, and so copy, every page of it in every fork.
    gc.collect()
    gc.freeze()
    _say(sock, ForkReply(ready=WorkerReady(pid=os.getpid(), toolchain=toolchain)))
    with _woken_by_ends() as (selector, woken):
        selector.register(sock, selectors.EVENT_READ)
        running: set[int] = set()
        while events := selector.select(None if running else linger):
            for key, _ in events:
                if key.fileobj is not sock:
                    woken.recv(MAX_MESSAGE_BYTES)
                    continue
                data, descriptors, _, _ = socket.recv_fds(sock, MAX_MESSAGE_BYTES, 2)
                if not data:
                    return None
                ours, output = (socket.socket(fileno=descriptor) for descriptor in descriptors)
                with ours, output:
                    try:
                        pid = os.fork()
                    except OSError as error:
                        _say(sock, ForkReply(failed=str(error)))
                        continue
                    if not pid:
                        return Assignment(ours.dup(), output.dup(), ForkRequest.FromString(data))
                with contextlib.suppress(OSError):  # It has done so itself, or has ended.
                    os.setpgid(pid, pid)
                running.add(pid)
                _say(sock, ForkReply(started=pid))
            for pid, code in _ended(running):
                running.discard(pid)
                _say(sock, ForkReply(ended=ForkEnded(pid=pid, returncode=code)))
    return None


def become(assignment: Assignment) -> None:
    """In a fork: take the place, the output and the environment of a worker of its own."""
    with contextlib.suppress(PermissionError):  # The server was faster.
        os.setpgid(0, 0)
    with assignment.output as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    os.chdir(assignment.request.folder)
    os.environ.update(assignment.request.environment)
    tempfile.tempdir = None  # It is found anew, from the environment.
    assignment.sock.set_inheritable(False)


def _unfit() -> str:
    tasks = list(Path("/proc/self/task").iterdir())
    if len(tasks) == 1:
        return ""
    names = ", ".join(sorted((task / "comm").read_text().strip() for task in tasks))
    return f"{len(tasks)} threads run in it after what it imported: {names}"


def _say(sock: socket.socket, reply: ForkReply) -> None:
    with contextlib.suppress(ConnectionError):  # The daemon is gone, which the next read says.
        sock.send(reply.SerializeToString())


@contextlib.contextmanager
def _woken_by_ends() -> Iterator[tuple[selectors.BaseSelector, socket.socket]]:
    """A selector that is ready too when a child has ended; what it reads then. All is as before afterwards, in forks too."""
    woken, waker = socket.socketpair()
    with woken, waker, selectors.DefaultSelector() as selector:
        woken.setblocking(False)
        waker.setblocking(False)
        handler = signal.signal(signal.SIGCHLD, lambda *_: None)
        before = signal.set_wakeup_fd(waker.fileno())
        try:
            selector.register(woken, selectors.EVENT_READ)
            yield selector, woken
        finally:
            signal.set_wakeup_fd(before)
            signal.signal(signal.SIGCHLD, handler)


def _ended(running: set[int]) -> list[tuple[int, int]]:
    found = []
    for pid in running:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            found.append((pid, os.waitstatus_to_exitcode(status)))
    return found
