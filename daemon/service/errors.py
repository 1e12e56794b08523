"""Typed refusals to gRPC status codes: the one place. The codes of each RPC are documented in the protos."""

import grpc

from inductord.daemon import errors
from inductord.worker.singleflight import RejectReason

_CODES: dict[type[errors.ServiceError], grpc.StatusCode] = {
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Denied: grpc.StatusCode.PERMISSION_DENIED,
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.Incompatible: grpc.StatusCode.FAILED_PRECONDITION,
    errors.OverLimit: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Draining: grpc.StatusCode.UNAVAILABLE,
    errors.GaveUp: grpc.StatusCode.ABORTED,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.ArtifactLost: grpc.StatusCode.DATA_LOSS,
}

_REJECTIONS: dict[RejectReason, errors.ServiceError] = {
    RejectReason.QUEUE_FULL: errors.OverLimit("the queue of compiles is full. Compile locally, or raise max_queue."),
    RejectReason.TOO_MANY_WAITERS: errors.OverLimit(
        "too many requests wait already. Compile locally, or raise max_waiters."
    ),
    RejectReason.DRAINING: errors.Draining("the daemon is about to stop. Compile locally, or reconnect with backoff."),
    RejectReason.ABORTED: errors.GaveUp("the daemon stopped before this compile ended. Compile locally."),
}


def status_code(error: errors.ServiceError) -> grpc.StatusCode:
    """The code that stands for a refusal."""
    return _CODES[type(error)]


def rejection(reason: RejectReason) -> errors.ServiceError:
    """Single-flight's reason as a refusal to raise."""
    return type(_REJECTIONS[reason])(*_REJECTIONS[reason].args)
