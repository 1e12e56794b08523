"""That the daemon cannot serve a rank, and why: what a failed RPC means, as a reason that is counted."""

from typing import Any

import grpc

from inductord.compiler.reasons import Fallback


class Unavailable(Exception):
    """The daemon cannot serve this graph. ``reason`` is counted; the message says what happened."""

    def __init__(self, reason: Fallback, message: str) -> None:
        super().__init__(message)
        self.reason = reason


_STATUS_REASONS = {
    grpc.StatusCode.UNAVAILABLE: Fallback.DAEMON_LOST,
    grpc.StatusCode.CANCELLED: Fallback.DAEMON_LOST,
    grpc.StatusCode.ABORTED: Fallback.DAEMON_DRAINING,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Fallback.DAEMON_BUSY,
    grpc.StatusCode.FAILED_PRECONDITION: Fallback.VERSION_MISMATCH,
    grpc.StatusCode.UNIMPLEMENTED: Fallback.VERSION_MISMATCH,
    grpc.StatusCode.UNAUTHENTICATED: Fallback.UNAUTHENTICATED,
    grpc.StatusCode.DATA_LOSS: Fallback.ARTIFACT_CORRUPT,
    grpc.StatusCode.DEADLINE_EXCEEDED: Fallback.DAEMON_SILENT,
}


def as_unavailable(error: grpc.RpcError) -> Unavailable:
    """What a failed RPC means for a rank."""
    # What gRPC raises is an RpcError and a Call at once, which its types do not say.
    call: Any = error
    code: grpc.StatusCode = call.code() if hasattr(call, "code") else grpc.StatusCode.UNKNOWN
    details = call.details() if hasattr(call, "details") else str(error)
    reason = _STATUS_REASONS.get(code, Fallback.DAEMON_ERROR)
    said = f"{code.name}: {details}"
    return Unavailable(reason, f"the connection broke: {said}" if reason is Fallback.DAEMON_LOST else said)
