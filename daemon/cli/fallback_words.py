"""What each reason for a local compile means, in a phrase for the run report. ``docs/fallbacks.md`` says more."""

from collections.abc import Mapping

from inductord.compiler.reasons import Fallback

PHRASES: Mapping[str, str] = {
    Fallback.NOT_CACHEABLE: "PyTorch says that this graph has no sound key",
    Fallback.USER_TRITON_KERNEL: "the graph calls a Triton kernel of yours",
    Fallback.DEVICE_UNSUPPORTED: "the graph runs on a device that inductord does not serve",
    Fallback.DEBUG_TRACE: "Inductor's debug trace is on, and belongs into the rank's own folder",
    Fallback.KEY_FAILED: "no key could be computed for the graph",
    Fallback.SERIALIZE_FAILED: "the graph could not be packed for the way",
    Fallback.GRAPH_TOO_LARGE: "the graph is larger than the daemon takes; raise max_graph_bytes",
    Fallback.DAEMON_ABSENT: "no daemon answered; `inductord doctor` looks for the cause",
    Fallback.DAEMON_LOST: "the connection broke and did not come back; see the daemon's log",
    Fallback.DAEMON_SILENT: "the daemon went silent; it was hung or stopped",
    Fallback.DAEMON_DRAINING: "the daemon was being stopped",
    Fallback.DAEMON_BUSY: "the daemon's queue was full; raise max_queue or give it workers",
    Fallback.DAEMON_ERROR: "the daemon answered with a defect; its log names it",
    Fallback.VERSION_MISMATCH: "the daemon is of another release; stop it and start this one's",
    Fallback.UNAUTHENTICATED: "the daemon wants a token that the rank does not have",
    Fallback.WAIT_EXCEEDED: "the compile took longer than the rank waits",
    Fallback.COMPILE_FAILED: "the worker's compile raised; PyTorch's own error decided here",
    Fallback.COMPILE_TIMEOUT: "the compile was over its time limit; see compile_timeout",
    Fallback.WORKER_DIED: "the worker died over this graph, also at the second try",
    Fallback.WORKER_OUT_OF_MEMORY: "the worker ran out of memory; see worker_memory_bytes",
    Fallback.WORKER_CANNOT_LOAD: "the worker lacks an operator that the graph uses",
    Fallback.KEY_MISMATCH: "worker and rank differ, as when the daemon runs in another environment; the rank said in what",
    Fallback.ARTIFACT_TOO_LARGE: "the result is larger than the daemon takes; raise max_artifact_bytes",
    Fallback.POOL_UNAVAILABLE: "the daemon had no worker to give; see `inductord status`",
    Fallback.ARTIFACT_CORRUPT: "the result did not match its digest and was not used",
    Fallback.GUARDS_FAILED: "the stored result was made under assumptions that do not hold here",
    Fallback.INSTALL_FAILED: "the result could not be loaded in the rank",
    Fallback.DISABLED: "inductord was switched off for this compile",
    Fallback.UNSUPPORTED_TORCH: "this release of inductord does not know this PyTorch",
}
"""A phrase for every reason; a test keeps it complete."""


def phrase(reason: str) -> str:
    """The phrase for ``reason``; ranks may be of a newer release than this command."""
    return PHRASES.get(reason, "a reason that this release does not know")
