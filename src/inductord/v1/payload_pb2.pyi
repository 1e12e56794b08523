from inductord.v1 import compiler_pb2 as _compiler_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphPayload(_message.Message):
    __slots__ = ("key_format", "toolchain", "kind", "ambient", "graph")
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    TOOLCHAIN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AMBIENT_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    key_format: int
    toolchain: _compiler_pb2.Toolchain
    kind: _compiler_pb2.GraphKind
    ambient: str
    graph: bytes
    def __init__(self, key_format: _Optional[int] = ..., toolchain: _Optional[_Union[_compiler_pb2.Toolchain, _Mapping]] = ..., kind: _Optional[_Union[_compiler_pb2.GraphKind, str]] = ..., ambient: _Optional[str] = ..., graph: _Optional[bytes] = ...) -> None: ...

class ArtifactPayload(_message.Message):
    __slots__ = ("key_format", "key", "compiled_graph", "shared_objects")
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    COMPILED_GRAPH_FIELD_NUMBER: _ClassVar[int]
    SHARED_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    key_format: int
    key: str
    compiled_graph: bytes
    shared_objects: _containers.RepeatedCompositeFieldContainer[SharedObject]
    def __init__(self, key_format: _Optional[int] = ..., key: _Optional[str] = ..., compiled_graph: _Optional[bytes] = ..., shared_objects: _Optional[_Iterable[_Union[SharedObject, _Mapping]]] = ...) -> None: ...

class SharedObject(_message.Message):
    __slots__ = ("source_digest", "content", "cache_path")
    SOURCE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CACHE_PATH_FIELD_NUMBER: _ClassVar[int]
    source_digest: str
    content: bytes
    cache_path: str
    def __init__(self, source_digest: _Optional[str] = ..., content: _Optional[bytes] = ..., cache_path: _Optional[str] = ...) -> None: ...
