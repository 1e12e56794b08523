"""Signals of ``inductord run`` while its command lives.

They are blocked and taken one by one with ``sigwaitinfo``, which says where each came from. A signal of the terminal
(Ctrl-C) reached the command already, since both are in the foreground group: passing it on would interrupt the command
twice, and torchrun takes the second for impatience. A signal that was sent to this process alone is passed on.
"""

import signal
from types import TracebackType
from typing import Self

FORWARDED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_TAKEN = FORWARDED | {signal.SIGCHLD}


class Interrupted(Exception):
    """A signal asks to end before the command was started."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.signum = signum


class SignalGate:
    """Holds signals back while it is entered. Enter it in the main thread before any other thread exists: a thread that
    does not block a signal would receive it."""

    def __enter__(self) -> Self:
        # A parent may have us ignore the end of children, and then their exit codes are lost.
        self._child_handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        signal.signal(signal.SIGCHLD, self._child_handler)

    @property
    def outside_mask(self) -> set[int]:
        """The mask from before, which processes that are started get back."""
        return {int(signum) for signum in self._mask}

    def pause(self, seconds: float) -> None:
        """Sleep, but end at a signal.

        Raises:
            Interrupted: for every signal but the end of a child.
        """
        info = signal.sigtimedwait(_TAKEN, seconds)
        if info is not None and info.si_signo != signal.SIGCHLD:
            raise Interrupted(info.si_signo)

    def wait(self) -> int | None:
        """Wait for the next signal. Returns one that shall be passed on, or ``None`` when there is nothing to pass on:
        a child changed state, or the terminal has told the command already."""
        info = signal.sigwaitinfo(_TAKEN)
        from_kernel = info.si_code > 0
        return None if from_kernel else info.si_signo
