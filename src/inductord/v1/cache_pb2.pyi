from inductord.v1 import compiler_pb2 as _compiler_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetBlobRequest(_message.Message):
    __slots__ = ("cache", "key")
    CACHE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    cache: str
    key: str
    def __init__(self, cache: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GetBlobResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class PutBlobRequest(_message.Message):
    __slots__ = ("cache", "key", "value")
    CACHE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    cache: str
    key: str
    value: bytes
    def __init__(self, cache: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class PutBlobResponse(_message.Message):
    __slots__ = ("kept",)
    KEPT_FIELD_NUMBER: _ClassVar[int]
    kept: bool
    def __init__(self, kept: bool = ...) -> None: ...

class AotEntry(_message.Message):
    __slots__ = ("content", "graphs")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    graphs: _containers.RepeatedCompositeFieldContainer[AotGraph]
    def __init__(self, content: _Optional[bytes] = ..., graphs: _Optional[_Iterable[_Union[AotGraph, _Mapping]]] = ...) -> None: ...

class AotDevice(_message.Message):
    __slots__ = ("index", "travels_as")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TRAVELS_AS_FIELD_NUMBER: _ClassVar[int]
    index: int
    travels_as: int
    def __init__(self, index: _Optional[int] = ..., travels_as: _Optional[int] = ...) -> None: ...

class AotGraph(_message.Message):
    __slots__ = ("fx_key", "guards", "request", "device")
    FX_KEY_FIELD_NUMBER: _ClassVar[int]
    GUARDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    fx_key: str
    guards: str
    request: _compiler_pb2.OpenCompile
    device: AotDevice
    def __init__(self, fx_key: _Optional[str] = ..., guards: _Optional[str] = ..., request: _Optional[_Union[_compiler_pb2.OpenCompile, _Mapping]] = ..., device: _Optional[_Union[AotDevice, _Mapping]] = ...) -> None: ...
