from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphCut(_message.Message):
    __slots__ = ("nodes", "whole", "note", "pieces", "distinct", "distinct_nodes", "distinct_pieces", "keys")
    NODES_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_NODES_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_PIECES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    whole: str
    note: str
    pieces: int
    distinct: int
    distinct_nodes: int
    distinct_pieces: _containers.RepeatedCompositeFieldContainer[CutPiece]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, nodes: _Optional[int] = ..., whole: _Optional[str] = ..., note: _Optional[str] = ..., pieces: _Optional[int] = ..., distinct: _Optional[int] = ..., distinct_nodes: _Optional[int] = ..., distinct_pieces: _Optional[_Iterable[_Union[CutPiece, _Mapping]]] = ..., keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CutPiece(_message.Message):
    __slots__ = ("times", "nodes", "first", "last", "outputs", "output_names", "keys")
    TIMES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NAMES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    times: int
    nodes: int
    first: str
    last: str
    outputs: int
    output_names: _containers.RepeatedScalarFieldContainer[str]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, times: _Optional[int] = ..., nodes: _Optional[int] = ..., first: _Optional[str] = ..., last: _Optional[str] = ..., outputs: _Optional[int] = ..., output_names: _Optional[_Iterable[str]] = ..., keys: _Optional[_Iterable[bytes]] = ...) -> None: ...
