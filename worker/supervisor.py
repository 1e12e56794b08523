"""The small process above each worker that ends its whole process group when the daemon is gone.

A compile spawns C++ compilers, and may sit in native code that holds the interpreter lock; so a worker cannot be
trusted to notice the daemon's death and to end what it spawned. Its supervisor does nothing else. It must stay free
of everything heavy: it is forked before the worker imports anything.
"""

import ctypes
import os
import select
import signal
import socket
import threading

_PR_SET_PDEATHSIG = 1


def fork_under_supervisor(lifeline: socket.socket) -> None:
    """Fork. The child returns and goes on as the worker; the parent stays as its supervisor and never returns.

    The supervisor kills its process group when the other end of ``lifeline`` closes, and ends as the worker did: with
    its exit status, or 128 plus the signal that killed it. The worker dies with its supervisor.
    """
    supervisor = os.getpid()
    worker = os.fork()
    if worker:
        threading.Thread(target=_kill_group_when_closed, args=(lifeline,), daemon=True).start()
        _, status = os.waitpid(worker, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:  # It died before the line above.
        os._exit(1)


def _kill_group_when_closed(lifeline: socket.socket) -> None:
    # Only the hang-up is asked for, so requests in flight do not wake this.
    hangup = select.poll()
    hangup.register(lifeline, select.POLLRDHUP)
    hangup.poll()
    os.killpg(0, signal.SIGKILL)
