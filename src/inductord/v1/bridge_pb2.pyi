from inductord.v1 import admin_pb2 as _admin_pb2
from inductord.v1 import compiler_pb2 as _compiler_pb2
from inductord.v1 import worker_pb2 as _worker_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Origin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORIGIN_UNSPECIFIED: _ClassVar[Origin]
    ORIGIN_COMPILED: _ClassVar[Origin]
    ORIGIN_JOINED: _ClassVar[Origin]
    ORIGIN_FOUND: _ClassVar[Origin]
ORIGIN_UNSPECIFIED: Origin
ORIGIN_COMPILED: Origin
ORIGIN_JOINED: Origin
ORIGIN_FOUND: Origin

class BridgeRequest(_message.Message):
    __slots__ = ("job", "cancel", "promote")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    PROMOTE_FIELD_NUMBER: _ClassVar[int]
    job: BridgeJob
    cancel: int
    promote: str
    def __init__(self, job: _Optional[_Union[BridgeJob, _Mapping]] = ..., cancel: _Optional[int] = ..., promote: _Optional[str] = ...) -> None: ...

class BridgeJob(_message.Message):
    __slots__ = ("id", "key", "toolchain", "speculative", "needs_device", "graph", "tenant", "traceparent")
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOOLCHAIN_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_DEVICE_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    id: int
    key: str
    toolchain: _compiler_pb2.Toolchain
    speculative: bool
    needs_device: bool
    graph: bytes
    tenant: str
    traceparent: str
    def __init__(self, id: _Optional[int] = ..., key: _Optional[str] = ..., toolchain: _Optional[_Union[_compiler_pb2.Toolchain, _Mapping]] = ..., speculative: bool = ..., needs_device: bool = ..., graph: _Optional[bytes] = ..., tenant: _Optional[str] = ..., traceparent: _Optional[str] = ...) -> None: ...

class BridgeReply(_message.Message):
    __slots__ = ("ready", "unavailable", "started", "done", "status")
    READY_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ready: BridgeReady
    unavailable: str
    started: int
    done: BridgeDone
    status: _admin_pb2.PoolStatus
    def __init__(self, ready: _Optional[_Union[BridgeReady, _Mapping]] = ..., unavailable: _Optional[str] = ..., started: _Optional[int] = ..., done: _Optional[_Union[BridgeDone, _Mapping]] = ..., status: _Optional[_Union[_admin_pb2.PoolStatus, _Mapping]] = ...) -> None: ...

class BridgeReady(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: _admin_pb2.PoolStatus
    def __init__(self, status: _Optional[_Union[_admin_pb2.PoolStatus, _Mapping]] = ...) -> None: ...

class BridgeDone(_message.Message):
    __slots__ = ("id", "reply", "artifact_size", "retryable", "origin", "worker")
    ID_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_SIZE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    id: int
    reply: _worker_pb2.CompileReply
    artifact_size: int
    retryable: bool
    origin: Origin
    worker: str
    def __init__(self, id: _Optional[int] = ..., reply: _Optional[_Union[_worker_pb2.CompileReply, _Mapping]] = ..., artifact_size: _Optional[int] = ..., retryable: bool = ..., origin: _Optional[_Union[Origin, str]] = ..., worker: _Optional[str] = ...) -> None: ...
