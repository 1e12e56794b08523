from inductord.v1 import compiler_pb2 as _compiler_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TuneRequest(_message.Message):
    __slots__ = ("open", "record")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    open: OpenTuning
    record: TuningRecord
    def __init__(self, open: _Optional[_Union[OpenTuning, _Mapping]] = ..., record: _Optional[_Union[TuningRecord, _Mapping]] = ...) -> None: ...

class OpenTuning(_message.Message):
    __slots__ = ("client", "key", "device", "requester")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    client: _compiler_pb2.Version
    key: str
    device: str
    requester: _compiler_pb2.Requester
    def __init__(self, client: _Optional[_Union[_compiler_pb2.Version, _Mapping]] = ..., key: _Optional[str] = ..., device: _Optional[str] = ..., requester: _Optional[_Union[_compiler_pb2.Requester, _Mapping]] = ...) -> None: ...

class TuneResponse(_message.Message):
    __slots__ = ("record", "lead")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    LEAD_FIELD_NUMBER: _ClassVar[int]
    record: TuningRecord
    lead: LeadTuning
    def __init__(self, record: _Optional[_Union[TuningRecord, _Mapping]] = ..., lead: _Optional[_Union[LeadTuning, _Mapping]] = ...) -> None: ...

class LeadTuning(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TuningRecord(_message.Message):
    __slots__ = ("choice", "kernel")
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    choice: str
    kernel: bytes
    def __init__(self, choice: _Optional[str] = ..., kernel: _Optional[bytes] = ...) -> None: ...
