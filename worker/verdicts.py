"""What became of one job, in the words of the pool protocol. Pure: from what was seen to an outcome.

A verdict is the outcome and, when the worker is to blame or lost with it, the failure to count.
"""

import signal

from inductord.v1.compiler_pb2 import FailureKind
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker.failures import WorkerFailure, describe_end, killing_signal
from inductord.worker.pool import Compiled, Failed, Outcome, failed

Verdict = tuple[Outcome, WorkerFailure | None]


def replied(reply: CompileReply, oom_killed: bool) -> Verdict:
    """The worker replied. ``oom_killed``: the kernel killed something of this cgroup for memory meanwhile."""
    match reply.WhichOneof("result"):
        case "artifact":
            return Compiled(reply.artifact, reply.compile_seconds, dict(reply.phases)), None
        case None:
            message = "the worker replied with neither an artifact nor a failure"
            return failed(FailureKind.FAILURE_KIND_WORKER_DIED, message, retryable=True), WorkerFailure.DIED
    failure = reply.failure
    if oom_killed and failure.kind == FailureKind.FAILURE_KIND_COMPILE_ERROR:
        # The worker lives, but the C++ compiler under it was killed: no fact about the graph.
        message = f"a compiler ran out of memory: {failure.message}"
        return _out_of_memory(message, failure.traceback), WorkerFailure.OOM
    return Failed(failure), None


def lost(returncode: int | None, oom_killed: bool, how: str, tail: str) -> Verdict:
    """The worker died or broke off. ``how``: what the connection showed; ``tail``: the end of the worker's output."""
    end = describe_end(returncode)
    if oom_killed and killing_signal(returncode) == signal.SIGKILL:
        message = f"the worker ran out of memory: it {end}, and the kernel's count of memory kills rose"
        return _out_of_memory(message, tail), WorkerFailure.OOM
    message = f"the worker {end} in the middle of a compile ({how})"
    failure = failed(FailureKind.FAILURE_KIND_WORKER_DIED, message, traceback=tail, retryable=True)
    return failure, WorkerFailure.DIED


def over_memory(resident: int, limit: int) -> Verdict:
    """The worker and what it spawned hold more than they may, in bytes."""
    message = (
        f"the worker used {resident / 2**20:.0f} MiB and was ended; "
        f"worker_memory_bytes allows {limit / 2**20:.0f} MiB"
    )  # fmt: skip
    return _out_of_memory(message, ""), WorkerFailure.OOM


def timed_out(seconds: float) -> Verdict:
    """The compile took longer than ``compile_timeout``."""
    message = f"the compile took longer than {seconds:g} s (compile_timeout) and was ended"
    return failed(FailureKind.FAILURE_KIND_TIMEOUT, message), WorkerFailure.TIMEOUT


def _out_of_memory(message: str, traceback: str) -> Failed:
    return failed(FailureKind.FAILURE_KIND_OUT_OF_MEMORY, message, traceback=traceback, retryable=True)
