from inductord.v1 import admin_pb2 as _admin_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SealedContent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEALED_CONTENT_UNSPECIFIED: _ClassVar[SealedContent]
    SEALED_CONTENT_ARTIFACT: _ClassVar[SealedContent]
    SEALED_CONTENT_GRAPH: _ClassVar[SealedContent]
SEALED_CONTENT_UNSPECIFIED: SealedContent
SEALED_CONTENT_ARTIFACT: SealedContent
SEALED_CONTENT_GRAPH: SealedContent

class SealedHeader(_message.Message):
    __slots__ = ("format", "content", "tenant", "entry")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    format: int
    content: SealedContent
    tenant: str
    entry: _admin_pb2.Entry
    def __init__(self, format: _Optional[int] = ..., content: _Optional[_Union[SealedContent, str]] = ..., tenant: _Optional[str] = ..., entry: _Optional[_Union[_admin_pb2.Entry, _Mapping]] = ...) -> None: ...

class RecordedGraph(_message.Message):
    __slots__ = ("entry", "graph")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    entry: _admin_pb2.Entry
    graph: bytes
    def __init__(self, entry: _Optional[_Union[_admin_pb2.Entry, _Mapping]] = ..., graph: _Optional[bytes] = ...) -> None: ...
