from inductord.v1 import compiler_pb2 as _compiler_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ForkRequest(_message.Message):
    __slots__ = ("folder", "environment")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    folder: str
    environment: _containers.ScalarMap[str, str]
    def __init__(self, folder: _Optional[str] = ..., environment: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ForkReply(_message.Message):
    __slots__ = ("ready", "declined", "started", "failed", "ended")
    READY_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ready: WorkerReady
    declined: str
    started: int
    failed: str
    ended: ForkEnded
    def __init__(self, ready: _Optional[_Union[WorkerReady, _Mapping]] = ..., declined: _Optional[str] = ..., started: _Optional[int] = ..., failed: _Optional[str] = ..., ended: _Optional[_Union[ForkEnded, _Mapping]] = ...) -> None: ...

class ForkEnded(_message.Message):
    __slots__ = ("pid", "returncode")
    PID_FIELD_NUMBER: _ClassVar[int]
    RETURNCODE_FIELD_NUMBER: _ClassVar[int]
    pid: int
    returncode: int
    def __init__(self, pid: _Optional[int] = ..., returncode: _Optional[int] = ...) -> None: ...

class WorkerRequest(_message.Message):
    __slots__ = ("compile",)
    COMPILE_FIELD_NUMBER: _ClassVar[int]
    compile: CompileJob
    def __init__(self, compile: _Optional[_Union[CompileJob, _Mapping]] = ...) -> None: ...

class CompileJob(_message.Message):
    __slots__ = ("key", "graph", "threads", "traceparent")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    key: str
    graph: bytes
    threads: int
    traceparent: str
    def __init__(self, key: _Optional[str] = ..., graph: _Optional[bytes] = ..., threads: _Optional[int] = ..., traceparent: _Optional[str] = ...) -> None: ...

class WorkerReply(_message.Message):
    __slots__ = ("ready", "compiled")
    READY_FIELD_NUMBER: _ClassVar[int]
    COMPILED_FIELD_NUMBER: _ClassVar[int]
    ready: WorkerReady
    compiled: CompileReply
    def __init__(self, ready: _Optional[_Union[WorkerReady, _Mapping]] = ..., compiled: _Optional[_Union[CompileReply, _Mapping]] = ...) -> None: ...

class WorkerReady(_message.Message):
    __slots__ = ("pid", "toolchain")
    PID_FIELD_NUMBER: _ClassVar[int]
    TOOLCHAIN_FIELD_NUMBER: _ClassVar[int]
    pid: int
    toolchain: _compiler_pb2.Toolchain
    def __init__(self, pid: _Optional[int] = ..., toolchain: _Optional[_Union[_compiler_pb2.Toolchain, _Mapping]] = ...) -> None: ...

class CompileReply(_message.Message):
    __slots__ = ("artifact", "failure", "compile_seconds", "phases")
    class PhasesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    COMPILE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    artifact: bytes
    failure: _compiler_pb2.CompileFailure
    compile_seconds: float
    phases: _containers.ScalarMap[str, float]
    def __init__(self, artifact: _Optional[bytes] = ..., failure: _Optional[_Union[_compiler_pb2.CompileFailure, _Mapping]] = ..., compile_seconds: _Optional[float] = ..., phases: _Optional[_Mapping[str, float]] = ...) -> None: ...
