"""Why the pool lost a worker, and how the end of a process reads. Pure."""

import enum
import signal


class WorkerFailure(enum.StrEnum):
    """What went wrong with workers. A closed set: values are metric labels."""

    DIED = "died"
    OOM = "oom"
    TIMEOUT = "timeout"
    START_FAILED = "start_failed"
    CANCELLED = "cancelled"


def killing_signal(returncode: int | None) -> int | None:
    """The signal that ended a process, or None. Knows both ``-n`` and the ``128 + n`` that a supervisor reports."""
    if returncode is None:
        return None
    number = -returncode if returncode < 0 else returncode - 128
    return number if number in signal.valid_signals() else None


def describe_end(returncode: int | None) -> str:
    """E.g. ``was killed by SIGKILL`` or ``exited with status 3``."""
    if returncode is None:
        return "closed its connection"
    number = killing_signal(returncode)
    if number is None:
        return f"exited with status {returncode}"
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"was killed by {name}"
