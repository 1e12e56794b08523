from inductord.v1 import compiler_pb2 as _compiler_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompileOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPILE_OUTCOME_UNSPECIFIED: _ClassVar[CompileOutcome]
    COMPILE_OUTCOME_QUEUED: _ClassVar[CompileOutcome]
    COMPILE_OUTCOME_COMPILING: _ClassVar[CompileOutcome]
    COMPILE_OUTCOME_COMPILED: _ClassVar[CompileOutcome]
    COMPILE_OUTCOME_FAILED: _ClassVar[CompileOutcome]
    COMPILE_OUTCOME_ABANDONED: _ClassVar[CompileOutcome]
COMPILE_OUTCOME_UNSPECIFIED: CompileOutcome
COMPILE_OUTCOME_QUEUED: CompileOutcome
COMPILE_OUTCOME_COMPILING: CompileOutcome
COMPILE_OUTCOME_COMPILED: CompileOutcome
COMPILE_OUTCOME_FAILED: CompileOutcome
COMPILE_OUTCOME_ABANDONED: CompileOutcome

class RankTimeline(_message.Message):
    __slots__ = ("rank", "pid", "host", "clock_ahead_seconds", "spans", "dropped")
    RANK_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AHEAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    rank: int
    pid: int
    host: str
    clock_ahead_seconds: float
    spans: _containers.RepeatedCompositeFieldContainer[_compiler_pb2.RankSpan]
    dropped: int
    def __init__(self, rank: _Optional[int] = ..., pid: _Optional[int] = ..., host: _Optional[str] = ..., clock_ahead_seconds: _Optional[float] = ..., spans: _Optional[_Iterable[_Union[_compiler_pb2.RankSpan, _Mapping]]] = ..., dropped: _Optional[int] = ...) -> None: ...

class CompileRecord(_message.Message):
    __slots__ = ("key", "kind", "nodes", "rank", "attempt", "queued_unix", "started_unix", "ended_unix", "outcome", "failure", "message", "worker", "phases", "compile_seconds")
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_UNIX_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNIX_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    COMPILE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    kind: _compiler_pb2.GraphKind
    nodes: int
    rank: int
    attempt: int
    queued_unix: float
    started_unix: float
    ended_unix: float
    outcome: CompileOutcome
    failure: _compiler_pb2.FailureKind
    message: str
    worker: str
    phases: _containers.RepeatedCompositeFieldContainer[CompilePhase]
    compile_seconds: float
    def __init__(self, key: _Optional[bytes] = ..., kind: _Optional[_Union[_compiler_pb2.GraphKind, str]] = ..., nodes: _Optional[int] = ..., rank: _Optional[int] = ..., attempt: _Optional[int] = ..., queued_unix: _Optional[float] = ..., started_unix: _Optional[float] = ..., ended_unix: _Optional[float] = ..., outcome: _Optional[_Union[CompileOutcome, str]] = ..., failure: _Optional[_Union[_compiler_pb2.FailureKind, str]] = ..., message: _Optional[str] = ..., worker: _Optional[str] = ..., phases: _Optional[_Iterable[_Union[CompilePhase, _Mapping]]] = ..., compile_seconds: _Optional[float] = ...) -> None: ...

class CompilePhase(_message.Message):
    __slots__ = ("name", "seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    seconds: float
    def __init__(self, name: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...
