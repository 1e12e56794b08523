from inductord.v1 import cut_pb2 as _cut_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRAPH_KIND_UNSPECIFIED: _ClassVar[GraphKind]
    GRAPH_KIND_FORWARD: _ClassVar[GraphKind]
    GRAPH_KIND_BACKWARD: _ClassVar[GraphKind]
    GRAPH_KIND_INFERENCE: _ClassVar[GraphKind]

class CompileState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPILE_STATE_UNSPECIFIED: _ClassVar[CompileState]
    COMPILE_STATE_UPLOADING: _ClassVar[CompileState]
    COMPILE_STATE_QUEUED: _ClassVar[CompileState]
    COMPILE_STATE_COMPILING: _ClassVar[CompileState]

class Served(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVED_UNSPECIFIED: _ClassVar[Served]
    SERVED_HIT: _ClassVar[Served]
    SERVED_JOINED: _ClassVar[Served]
    SERVED_LED: _ClassVar[Served]

class FailureKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_KIND_UNSPECIFIED: _ClassVar[FailureKind]
    FAILURE_KIND_COMPILE_ERROR: _ClassVar[FailureKind]
    FAILURE_KIND_UNLOADABLE: _ClassVar[FailureKind]
    FAILURE_KIND_KEY_MISMATCH: _ClassVar[FailureKind]
    FAILURE_KIND_TIMEOUT: _ClassVar[FailureKind]
    FAILURE_KIND_WORKER_DIED: _ClassVar[FailureKind]
    FAILURE_KIND_OUT_OF_MEMORY: _ClassVar[FailureKind]
    FAILURE_KIND_TOO_LARGE: _ClassVar[FailureKind]
    FAILURE_KIND_POOL_UNAVAILABLE: _ClassVar[FailureKind]

class KeyState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEY_STATE_UNSPECIFIED: _ClassVar[KeyState]
    KEY_STATE_ABSENT: _ClassVar[KeyState]
    KEY_STATE_STORED: _ClassVar[KeyState]
    KEY_STATE_COMPILING: _ClassVar[KeyState]
    KEY_STATE_FAILED: _ClassVar[KeyState]

class StageKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_KIND_UNSPECIFIED: _ClassVar[StageKind]
    STAGE_KIND_TRACE: _ClassVar[StageKind]
    STAGE_KIND_LAZY_BACKWARD: _ClassVar[StageKind]
    STAGE_KIND_KEY: _ClassVar[StageKind]
    STAGE_KIND_WAIT: _ClassVar[StageKind]
    STAGE_KIND_SERIALIZE: _ClassVar[StageKind]
    STAGE_KIND_LOAD: _ClassVar[StageKind]
    STAGE_KIND_LOCAL_COMPILE: _ClassVar[StageKind]
GRAPH_KIND_UNSPECIFIED: GraphKind
GRAPH_KIND_FORWARD: GraphKind
GRAPH_KIND_BACKWARD: GraphKind
GRAPH_KIND_INFERENCE: GraphKind
COMPILE_STATE_UNSPECIFIED: CompileState
COMPILE_STATE_UPLOADING: CompileState
COMPILE_STATE_QUEUED: CompileState
COMPILE_STATE_COMPILING: CompileState
SERVED_UNSPECIFIED: Served
SERVED_HIT: Served
SERVED_JOINED: Served
SERVED_LED: Served
FAILURE_KIND_UNSPECIFIED: FailureKind
FAILURE_KIND_COMPILE_ERROR: FailureKind
FAILURE_KIND_UNLOADABLE: FailureKind
FAILURE_KIND_KEY_MISMATCH: FailureKind
FAILURE_KIND_TIMEOUT: FailureKind
FAILURE_KIND_WORKER_DIED: FailureKind
FAILURE_KIND_OUT_OF_MEMORY: FailureKind
FAILURE_KIND_TOO_LARGE: FailureKind
FAILURE_KIND_POOL_UNAVAILABLE: FailureKind
KEY_STATE_UNSPECIFIED: KeyState
KEY_STATE_ABSENT: KeyState
KEY_STATE_STORED: KeyState
KEY_STATE_COMPILING: KeyState
KEY_STATE_FAILED: KeyState
STAGE_KIND_UNSPECIFIED: StageKind
STAGE_KIND_TRACE: StageKind
STAGE_KIND_LAZY_BACKWARD: StageKind
STAGE_KIND_KEY: StageKind
STAGE_KIND_WAIT: StageKind
STAGE_KIND_SERIALIZE: StageKind
STAGE_KIND_LOAD: StageKind
STAGE_KIND_LOCAL_COMPILE: StageKind

class GetCapabilitiesRequest(_message.Message):
    __slots__ = ("client",)
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    client: Version
    def __init__(self, client: _Optional[_Union[Version, _Mapping]] = ...) -> None: ...

class GetCapabilitiesResponse(_message.Message):
    __slots__ = ("daemon", "cxx", "max_graph_bytes", "max_artifact_bytes", "chunk_bytes", "max_lookup_keys", "heartbeat_seconds", "pool")
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    CXX_FIELD_NUMBER: _ClassVar[int]
    MAX_GRAPH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_ARTIFACT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_LOOKUP_KEYS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    daemon: Version
    cxx: str
    max_graph_bytes: int
    max_artifact_bytes: int
    chunk_bytes: int
    max_lookup_keys: int
    heartbeat_seconds: float
    pool: str
    def __init__(self, daemon: _Optional[_Union[Version, _Mapping]] = ..., cxx: _Optional[str] = ..., max_graph_bytes: _Optional[int] = ..., max_artifact_bytes: _Optional[int] = ..., chunk_bytes: _Optional[int] = ..., max_lookup_keys: _Optional[int] = ..., heartbeat_seconds: _Optional[float] = ..., pool: _Optional[str] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("protocol", "release", "key_format")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    release: str
    key_format: int
    def __init__(self, protocol: _Optional[int] = ..., release: _Optional[str] = ..., key_format: _Optional[int] = ...) -> None: ...

class Toolchain(_message.Message):
    __slots__ = ("torch", "python", "cpu", "cxx", "triton", "accelerator")
    TORCH_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    CXX_FIELD_NUMBER: _ClassVar[int]
    TRITON_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    torch: str
    python: str
    cpu: str
    cxx: str
    triton: str
    accelerator: str
    def __init__(self, torch: _Optional[str] = ..., python: _Optional[str] = ..., cpu: _Optional[str] = ..., cxx: _Optional[str] = ..., triton: _Optional[str] = ..., accelerator: _Optional[str] = ...) -> None: ...

class CompileRequest(_message.Message):
    __slots__ = ("open", "graph", "chunk", "refused", "send_artifact", "compiles_here", "compiled")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SEND_ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    COMPILES_HERE_FIELD_NUMBER: _ClassVar[int]
    COMPILED_FIELD_NUMBER: _ClassVar[int]
    open: OpenCompile
    graph: BlobHeader
    chunk: bytes
    refused: GraphRefused
    send_artifact: SendArtifact
    compiles_here: CompilesHere
    compiled: Compiled
    def __init__(self, open: _Optional[_Union[OpenCompile, _Mapping]] = ..., graph: _Optional[_Union[BlobHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ..., refused: _Optional[_Union[GraphRefused, _Mapping]] = ..., send_artifact: _Optional[_Union[SendArtifact, _Mapping]] = ..., compiles_here: _Optional[_Union[CompilesHere, _Mapping]] = ..., compiled: _Optional[_Union[Compiled, _Mapping]] = ...) -> None: ...

class CompilesHere(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Compiled(_message.Message):
    __slots__ = ("blob", "compile_seconds")
    BLOB_FIELD_NUMBER: _ClassVar[int]
    COMPILE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    blob: BlobHeader
    compile_seconds: float
    def __init__(self, blob: _Optional[_Union[BlobHeader, _Mapping]] = ..., compile_seconds: _Optional[float] = ...) -> None: ...

class OpenCompile(_message.Message):
    __slots__ = ("client", "key", "toolchain", "kind", "requester", "nodes", "key_parts", "reads_files", "speculative", "needs_device")
    class KeyPartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOOLCHAIN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    KEY_PARTS_FIELD_NUMBER: _ClassVar[int]
    READS_FILES_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_DEVICE_FIELD_NUMBER: _ClassVar[int]
    client: Version
    key: str
    toolchain: Toolchain
    kind: GraphKind
    requester: Requester
    nodes: int
    key_parts: _containers.ScalarMap[str, str]
    reads_files: bool
    speculative: bool
    needs_device: bool
    def __init__(self, client: _Optional[_Union[Version, _Mapping]] = ..., key: _Optional[str] = ..., toolchain: _Optional[_Union[Toolchain, _Mapping]] = ..., kind: _Optional[_Union[GraphKind, str]] = ..., requester: _Optional[_Union[Requester, _Mapping]] = ..., nodes: _Optional[int] = ..., key_parts: _Optional[_Mapping[str, str]] = ..., reads_files: bool = ..., speculative: bool = ..., needs_device: bool = ...) -> None: ...

class Requester(_message.Message):
    __slots__ = ("job", "rank", "world_size", "pid")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    job: str
    rank: int
    world_size: int
    pid: int
    def __init__(self, job: _Optional[str] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class BlobHeader(_message.Message):
    __slots__ = ("size", "sha256")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    size: int
    sha256: bytes
    def __init__(self, size: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class GraphRefused(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class SendArtifact(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompileResponse(_message.Message):
    __slots__ = ("send_graph", "progress", "artifact", "chunk", "failure")
    SEND_GRAPH_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    send_graph: SendGraph
    progress: Progress
    artifact: Artifact
    chunk: bytes
    failure: CompileFailure
    def __init__(self, send_graph: _Optional[_Union[SendGraph, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., artifact: _Optional[_Union[Artifact, _Mapping]] = ..., chunk: _Optional[bytes] = ..., failure: _Optional[_Union[CompileFailure, _Mapping]] = ...) -> None: ...

class SendGraph(_message.Message):
    __slots__ = ("worker_measures",)
    WORKER_MEASURES_FIELD_NUMBER: _ClassVar[int]
    worker_measures: bool
    def __init__(self, worker_measures: bool = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("state", "elapsed_seconds", "ahead")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    state: CompileState
    elapsed_seconds: float
    ahead: int
    def __init__(self, state: _Optional[_Union[CompileState, str]] = ..., elapsed_seconds: _Optional[float] = ..., ahead: _Optional[int] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("blob", "served", "compile_seconds", "path")
    BLOB_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    COMPILE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    blob: BlobHeader
    served: Served
    compile_seconds: float
    path: str
    def __init__(self, blob: _Optional[_Union[BlobHeader, _Mapping]] = ..., served: _Optional[_Union[Served, str]] = ..., compile_seconds: _Optional[float] = ..., path: _Optional[str] = ...) -> None: ...

class CompileFailure(_message.Message):
    __slots__ = ("kind", "message", "traceback", "remembered")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_FIELD_NUMBER: _ClassVar[int]
    kind: FailureKind
    message: str
    traceback: str
    remembered: bool
    def __init__(self, kind: _Optional[_Union[FailureKind, str]] = ..., message: _Optional[str] = ..., traceback: _Optional[str] = ..., remembered: bool = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class LookupResponse(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[KeyState]
    def __init__(self, states: _Optional[_Iterable[_Union[KeyState, str]]] = ...) -> None: ...

class ReportRankRequest(_message.Message):
    __slots__ = ("requester", "stats", "trace", "cuts")
    REQUESTER_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    CUTS_FIELD_NUMBER: _ClassVar[int]
    requester: Requester
    stats: RankStats
    trace: RankTrace
    cuts: _containers.RepeatedCompositeFieldContainer[_cut_pb2.GraphCut]
    def __init__(self, requester: _Optional[_Union[Requester, _Mapping]] = ..., stats: _Optional[_Union[RankStats, _Mapping]] = ..., trace: _Optional[_Union[RankTrace, _Mapping]] = ..., cuts: _Optional[_Iterable[_Union[_cut_pb2.GraphCut, _Mapping]]] = ...) -> None: ...

class RankStats(_message.Message):
    __slots__ = ("requests", "hits", "joined", "led", "fallbacks", "wait_seconds", "load_seconds", "key_seconds", "serialize_seconds", "local_compile_seconds", "saved_seconds", "keys", "artifact_bytes", "graph_bytes", "dynamo_seconds", "aot_seconds", "first_launch_seconds", "first_launches", "recompiles", "guard_failures", "regions", "whole_graphs", "region_pieces", "region_distinct", "remote_caches")
    class FallbacksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RegionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WholeGraphsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RemoteCachesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    LED_FIELD_NUMBER: _ClassVar[int]
    FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KEY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SERIALIZE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_COMPILE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SAVED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_BYTES_FIELD_NUMBER: _ClassVar[int]
    GRAPH_BYTES_FIELD_NUMBER: _ClassVar[int]
    DYNAMO_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AOT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FIRST_LAUNCH_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FIRST_LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    RECOMPILES_FIELD_NUMBER: _ClassVar[int]
    GUARD_FAILURES_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_GRAPHS_FIELD_NUMBER: _ClassVar[int]
    REGION_PIECES_FIELD_NUMBER: _ClassVar[int]
    REGION_DISTINCT_FIELD_NUMBER: _ClassVar[int]
    REMOTE_CACHES_FIELD_NUMBER: _ClassVar[int]
    requests: int
    hits: int
    joined: int
    led: int
    fallbacks: _containers.ScalarMap[str, int]
    wait_seconds: float
    load_seconds: float
    key_seconds: float
    serialize_seconds: float
    local_compile_seconds: float
    saved_seconds: float
    keys: _containers.RepeatedScalarFieldContainer[str]
    artifact_bytes: int
    graph_bytes: int
    dynamo_seconds: float
    aot_seconds: float
    first_launch_seconds: float
    first_launches: int
    recompiles: int
    guard_failures: int
    regions: _containers.ScalarMap[str, int]
    whole_graphs: _containers.ScalarMap[str, int]
    region_pieces: int
    region_distinct: int
    remote_caches: _containers.ScalarMap[str, int]
    def __init__(self, requests: _Optional[int] = ..., hits: _Optional[int] = ..., joined: _Optional[int] = ..., led: _Optional[int] = ..., fallbacks: _Optional[_Mapping[str, int]] = ..., wait_seconds: _Optional[float] = ..., load_seconds: _Optional[float] = ..., key_seconds: _Optional[float] = ..., serialize_seconds: _Optional[float] = ..., local_compile_seconds: _Optional[float] = ..., saved_seconds: _Optional[float] = ..., keys: _Optional[_Iterable[str]] = ..., artifact_bytes: _Optional[int] = ..., graph_bytes: _Optional[int] = ..., dynamo_seconds: _Optional[float] = ..., aot_seconds: _Optional[float] = ..., first_launch_seconds: _Optional[float] = ..., first_launches: _Optional[int] = ..., recompiles: _Optional[int] = ..., guard_failures: _Optional[int] = ..., regions: _Optional[_Mapping[str, int]] = ..., whole_graphs: _Optional[_Mapping[str, int]] = ..., region_pieces: _Optional[int] = ..., region_distinct: _Optional[int] = ..., remote_caches: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ReportRankResponse(_message.Message):
    __slots__ = ("answered_unix", "taken")
    ANSWERED_UNIX_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    answered_unix: float
    taken: int
    def __init__(self, answered_unix: _Optional[float] = ..., taken: _Optional[int] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("kind", "offset_seconds", "seconds")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OFFSET_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    kind: StageKind
    offset_seconds: float
    seconds: float
    def __init__(self, kind: _Optional[_Union[StageKind, str]] = ..., offset_seconds: _Optional[float] = ..., seconds: _Optional[float] = ...) -> None: ...

class RankSpan(_message.Message):
    __slots__ = ("start_unix", "stages", "key", "kind", "nodes", "served", "fallback", "compile_id")
    START_UNIX_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    COMPILE_ID_FIELD_NUMBER: _ClassVar[int]
    start_unix: float
    stages: _containers.RepeatedCompositeFieldContainer[Stage]
    key: bytes
    kind: GraphKind
    nodes: int
    served: Served
    fallback: str
    compile_id: str
    def __init__(self, start_unix: _Optional[float] = ..., stages: _Optional[_Iterable[_Union[Stage, _Mapping]]] = ..., key: _Optional[bytes] = ..., kind: _Optional[_Union[GraphKind, str]] = ..., nodes: _Optional[int] = ..., served: _Optional[_Union[Served, str]] = ..., fallback: _Optional[str] = ..., compile_id: _Optional[str] = ...) -> None: ...

class RankTrace(_message.Message):
    __slots__ = ("first", "spans", "clock_ahead_seconds", "host")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AHEAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    first: int
    spans: _containers.RepeatedCompositeFieldContainer[RankSpan]
    clock_ahead_seconds: float
    host: str
    def __init__(self, first: _Optional[int] = ..., spans: _Optional[_Iterable[_Union[RankSpan, _Mapping]]] = ..., clock_ahead_seconds: _Optional[float] = ..., host: _Optional[str] = ...) -> None: ...
