"""Why a rank compiled a graph itself. A closed set: each is a metric label, a line of the run report and a row in
``docs/fallbacks.md``."""

import enum


class Fallback(enum.StrEnum):
    """Reasons for a local compile. Values are stable: they are metric labels."""

    # The graph cannot travel.
    NOT_CACHEABLE = "not_cacheable"
    USER_TRITON_KERNEL = "user_triton_kernel"
    DEVICE_UNSUPPORTED = "device_unsupported"
    DEBUG_TRACE = "debug_trace"
    KEY_FAILED = "key_failed"
    SERIALIZE_FAILED = "serialize_failed"
    GRAPH_TOO_LARGE = "graph_too_large"
    # The daemon cannot be had.
    DAEMON_ABSENT = "daemon_absent"
    DAEMON_LOST = "daemon_lost"
    DAEMON_SILENT = "daemon_silent"
    DAEMON_DRAINING = "daemon_draining"
    DAEMON_BUSY = "daemon_busy"
    DAEMON_ERROR = "daemon_error"
    VERSION_MISMATCH = "version_mismatch"
    UNAUTHENTICATED = "unauthenticated"
    WAIT_EXCEEDED = "wait_exceeded"
    # The pool could not compile it.
    COMPILE_FAILED = "compile_failed"
    COMPILE_TIMEOUT = "compile_timeout"
    WORKER_DIED = "worker_died"
    WORKER_OUT_OF_MEMORY = "worker_out_of_memory"
    WORKER_CANNOT_LOAD = "worker_cannot_load"
    KEY_MISMATCH = "key_mismatch"
    ARTIFACT_TOO_LARGE = "artifact_too_large"
    POOL_UNAVAILABLE = "pool_unavailable"
    # The artifact is no use to this rank.
    ARTIFACT_CORRUPT = "artifact_corrupt"
    GUARDS_FAILED = "guards_failed"
    INSTALL_FAILED = "install_failed"
    # The rank was told to, or PyTorch is of a version that the adapter does not know.
    DISABLED = "disabled"
    UNSUPPORTED_TORCH = "unsupported_torch"
