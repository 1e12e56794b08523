from inductord.v1 import compiler_pb2 as _compiler_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphPayload(_message.Message):
    __slots__ = ("key_format", "toolchain", "kind", "ambient", "graph", "accelerator", "own_device", "key_parts", "measures")
    class KeyPartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    TOOLCHAIN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AMBIENT_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    OWN_DEVICE_FIELD_NUMBER: _ClassVar[int]
    KEY_PARTS_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    key_format: int
    toolchain: _compiler_pb2.Toolchain
    kind: _compiler_pb2.GraphKind
    ambient: str
    graph: bytes
    accelerator: Accelerator
    own_device: int
    key_parts: _containers.ScalarMap[str, str]
    measures: bool
    def __init__(self, key_format: _Optional[int] = ..., toolchain: _Optional[_Union[_compiler_pb2.Toolchain, _Mapping]] = ..., kind: _Optional[_Union[_compiler_pb2.GraphKind, str]] = ..., ambient: _Optional[str] = ..., graph: _Optional[bytes] = ..., accelerator: _Optional[_Union[Accelerator, _Mapping]] = ..., own_device: _Optional[int] = ..., key_parts: _Optional[_Mapping[str, str]] = ..., measures: bool = ...) -> None: ...

class Accelerator(_message.Message):
    __slots__ = ("type", "name", "arch", "runtime", "count", "properties")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARCH_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    arch: str
    runtime: str
    count: int
    properties: str
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ..., arch: _Optional[str] = ..., runtime: _Optional[str] = ..., count: _Optional[int] = ..., properties: _Optional[str] = ...) -> None: ...

class ArtifactPayload(_message.Message):
    __slots__ = ("key_format", "key", "compiled_graph", "shared_objects", "relocations")
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    COMPILED_GRAPH_FIELD_NUMBER: _ClassVar[int]
    SHARED_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    RELOCATIONS_FIELD_NUMBER: _ClassVar[int]
    key_format: int
    key: str
    compiled_graph: bytes
    shared_objects: _containers.RepeatedCompositeFieldContainer[SharedObject]
    relocations: Relocations
    def __init__(self, key_format: _Optional[int] = ..., key: _Optional[str] = ..., compiled_graph: _Optional[bytes] = ..., shared_objects: _Optional[_Iterable[_Union[SharedObject, _Mapping]]] = ..., relocations: _Optional[_Union[Relocations, _Mapping]] = ...) -> None: ...

class Relocations(_message.Message):
    __slots__ = ("records", "kernels")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Span]
    kernels: _containers.RepeatedCompositeFieldContainer[Span]
    def __init__(self, records: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., kernels: _Optional[_Iterable[_Union[Span, _Mapping]]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class SharedObject(_message.Message):
    __slots__ = ("source_digest", "content", "cache_path")
    SOURCE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CACHE_PATH_FIELD_NUMBER: _ClassVar[int]
    source_digest: str
    content: bytes
    cache_path: str
    def __init__(self, source_digest: _Optional[str] = ..., content: _Optional[bytes] = ..., cache_path: _Optional[str] = ...) -> None: ...
