"""The worker process: answers compile requests on an inherited socket until the daemon closes it. It is started as such, or is
a fork of a server that is.

What it runs is given to it, so this module knows neither torch nor what a graph is. It never uses stdout for the
protocol: whatever a compile prints goes to the daemon's log.
"""

import argparse
import faulthandler
import gc
import os
import socket
import time
from collections.abc import Callable, Sequence

from inductord.compiler import otel
from inductord.v1.compiler_pb2 import CompileFailure, FailureKind, Toolchain
from inductord.v1.worker_pb2 import CompileJob, CompileReply, WorkerReady, WorkerReply, WorkerRequest
from inductord.worker import fork_server, framing
from inductord.worker.supervisor import fork_under_supervisor

Warm = Callable[[], Toolchain]
"""Imports all that the first compile needs and says under what toolchain this process compiles."""

CompileGraph = Callable[[str, bytes, int], CompileReply]
"""Compiles, for a key, a serialised ``GraphPayload`` with at most so many threads. Never raises for what a graph does."""


def main(warm: Warm, compile_graph: CompileGraph, arguments: Sequence[str] | None = None) -> None:
    """Be a worker: take the socket from the command line, come under a supervisor, serve until the daemon is gone."""
    parser = argparse.ArgumentParser(description="A compile worker. The inductord daemon starts these by itself.")
    parser.add_argument("--fd", type=int, required=True, help="inherited socket to speak with the daemon")
    parser.add_argument("--max-artifact-bytes", type=int, required=True, help="larger artifacts are not sent")
    parser.add_argument(
        "--fork-server",
        type=float,
        metavar="SECONDS",
        help="start workers by fork, on request, and end after so many seconds without any",
    )
    options = parser.parse_args(arguments)
    # A compiler in C++ that aborts takes the process with it: where it did is then the last that the worker wrote.
    faulthandler.enable()
    with socket.socket(fileno=options.fd) as sock:
        # C++ compilers and inner pools must not hold the connection open after this process.
        sock.set_inheritable(False)
        fork_under_supervisor(sock)
        gc.disable()  # What imports make stays: looking through it again and again takes a tenth of their time.
        toolchain = warm()
        # Nor do compiles look through it: a twentieth of theirs. Forks share what no collection writes to.
        gc.freeze()
        gc.enable()
        if options.fork_server is None:
            serve(sock, toolchain, compile_graph, options.max_artifact_bytes)
            return
        assignment = fork_server.serve(sock, toolchain, options.fork_server)
    if assignment is not None:  # this is a fork
        fork_server.become(assignment)
        with assignment.sock as own:
            fork_under_supervisor(own)
            serve(own, toolchain, compile_graph, options.max_artifact_bytes)


def serve(sock: socket.socket, toolchain: Toolchain, compile_graph: CompileGraph, max_artifact_bytes: int) -> None:
    """Send ready, then one reply to each request, until the peer closes ``sock``.

    Raises:
        framing.FrameError: the daemon broke the framing.
        OSError: the connection broke in the middle of a message.
    """
    ready = WorkerReply(ready=WorkerReady(pid=os.getpid(), toolchain=toolchain))
    framing.write_frame(sock, ready.SerializeToString())
    while (frame := framing.read_frame(sock)) is not None:
        job = WorkerRequest.FromString(bytes(frame)).compile
        began = time.time()
        reply = bounded(compile_graph(job.key, job.graph, job.threads), max_artifact_bytes)
        if job.traceparent:
            _trace(job, reply, began)
        framing.write_frame(sock, WorkerReply(compiled=reply).SerializeToString())


def _trace(job: CompileJob, reply: CompileReply, began: float) -> None:
    # Only a job that is traced makes this process import OpenTelemetry.
    about = {"inductord.key": job.key}
    span = otel.spans_of("inductord-worker").begin(
        "inductord.worker.compile", about, parent=job.traceparent, start_unix=began
    )
    for phase, seconds in reply.phases.items():
        span.child(phase, began, seconds)
        began += seconds
    span.end({}, error=reply.failure.message)


def bounded(reply: CompileReply, max_artifact_bytes: int) -> CompileReply:
    """``reply``, or a failure in its place when the artifact is over the limit."""
    size = len(reply.artifact)
    if size <= max_artifact_bytes:
        return reply
    failure = CompileFailure(
        kind=FailureKind.FAILURE_KIND_TOO_LARGE,
        message=f"the artifact has {size} bytes and the daemon takes {max_artifact_bytes}; "
        "raise max_artifact_bytes to share it",
    )
    return CompileReply(failure=failure, compile_seconds=reply.compile_seconds, phases=reply.phases)
