from inductord.v1 import compiler_pb2 as _compiler_pb2
from inductord.v1 import cut_pb2 as _cut_pb2
from inductord.v1 import timeline_pb2 as _timeline_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PutOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PUT_OUTCOME_UNSPECIFIED: _ClassVar[PutOutcome]
    PUT_OUTCOME_STORED: _ClassVar[PutOutcome]
    PUT_OUTCOME_PRESENT: _ClassVar[PutOutcome]
    PUT_OUTCOME_REFUSED: _ClassVar[PutOutcome]
PUT_OUTCOME_UNSPECIFIED: PutOutcome
PUT_OUTCOME_STORED: PutOutcome
PUT_OUTCOME_PRESENT: PutOutcome
PUT_OUTCOME_REFUSED: PutOutcome

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: Status
    def __init__(self, status: _Optional[_Union[Status, _Mapping]] = ...) -> None: ...

class WatchStatusRequest(_message.Message):
    __slots__ = ("interval_seconds",)
    INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    interval_seconds: float
    def __init__(self, interval_seconds: _Optional[float] = ...) -> None: ...

class WatchStatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: Status
    def __init__(self, status: _Optional[_Union[Status, _Mapping]] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("version", "pid", "uptime_seconds", "address", "metrics_address", "draining", "pool", "store", "compiles", "totals", "rss_bytes", "jobs", "listen")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    METRICS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    COMPILES_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LISTEN_FIELD_NUMBER: _ClassVar[int]
    version: _compiler_pb2.Version
    pid: int
    uptime_seconds: float
    address: str
    metrics_address: str
    draining: bool
    pool: PoolStatus
    store: StoreStatus
    compiles: _containers.RepeatedCompositeFieldContainer[RunningCompile]
    totals: Totals
    rss_bytes: int
    jobs: _containers.RepeatedCompositeFieldContainer[JobSummary]
    listen: str
    def __init__(self, version: _Optional[_Union[_compiler_pb2.Version, _Mapping]] = ..., pid: _Optional[int] = ..., uptime_seconds: _Optional[float] = ..., address: _Optional[str] = ..., metrics_address: _Optional[str] = ..., draining: bool = ..., pool: _Optional[_Union[PoolStatus, _Mapping]] = ..., store: _Optional[_Union[StoreStatus, _Mapping]] = ..., compiles: _Optional[_Iterable[_Union[RunningCompile, _Mapping]]] = ..., totals: _Optional[_Union[Totals, _Mapping]] = ..., rss_bytes: _Optional[int] = ..., jobs: _Optional[_Iterable[_Union[JobSummary, _Mapping]]] = ..., listen: _Optional[str] = ...) -> None: ...

class PoolStatus(_message.Message):
    __slots__ = ("kind", "max_workers", "starting", "idle", "busy", "queued", "crashes", "note", "devices", "cluster")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MAX_WORKERS_FIELD_NUMBER: _ClassVar[int]
    STARTING_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    CRASHES_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    max_workers: int
    starting: int
    idle: int
    busy: int
    queued: int
    crashes: int
    note: str
    devices: int
    cluster: ClusterStatus
    def __init__(self, kind: _Optional[str] = ..., max_workers: _Optional[int] = ..., starting: _Optional[int] = ..., idle: _Optional[int] = ..., busy: _Optional[int] = ..., queued: _Optional[int] = ..., crashes: _Optional[int] = ..., note: _Optional[str] = ..., devices: _Optional[int] = ..., cluster: _Optional[_Union[ClusterStatus, _Mapping]] = ...) -> None: ...

class ClusterStatus(_message.Message):
    __slots__ = ("address", "registry", "uptime_seconds", "cpu_seconds", "daemons", "flights", "waiting", "compiles", "retries", "led", "joined", "found", "failed", "silent_daemons", "lost_artifacts", "kept_artifacts", "kept_bytes", "reattached", "worker_failures")
    class WorkerFailuresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DAEMONS_FIELD_NUMBER: _ClassVar[int]
    FLIGHTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    COMPILES_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    LED_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SILENT_DAEMONS_FIELD_NUMBER: _ClassVar[int]
    LOST_ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REATTACHED_FIELD_NUMBER: _ClassVar[int]
    WORKER_FAILURES_FIELD_NUMBER: _ClassVar[int]
    address: str
    registry: str
    uptime_seconds: float
    cpu_seconds: float
    daemons: int
    flights: int
    waiting: int
    compiles: int
    retries: int
    led: int
    joined: int
    found: int
    failed: int
    silent_daemons: int
    lost_artifacts: int
    kept_artifacts: int
    kept_bytes: int
    reattached: int
    worker_failures: _containers.ScalarMap[str, int]
    def __init__(self, address: _Optional[str] = ..., registry: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., cpu_seconds: _Optional[float] = ..., daemons: _Optional[int] = ..., flights: _Optional[int] = ..., waiting: _Optional[int] = ..., compiles: _Optional[int] = ..., retries: _Optional[int] = ..., led: _Optional[int] = ..., joined: _Optional[int] = ..., found: _Optional[int] = ..., failed: _Optional[int] = ..., silent_daemons: _Optional[int] = ..., lost_artifacts: _Optional[int] = ..., kept_artifacts: _Optional[int] = ..., kept_bytes: _Optional[int] = ..., reattached: _Optional[int] = ..., worker_failures: _Optional[_Mapping[str, int]] = ...) -> None: ...

class StoreStatus(_message.Message):
    __slots__ = ("path", "entries", "bytes", "max_bytes", "memory_bytes", "evictions", "quarantined", "note", "shared")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    path: str
    entries: int
    bytes: int
    max_bytes: int
    memory_bytes: int
    evictions: int
    quarantined: int
    note: str
    shared: SharedStoreStatus
    def __init__(self, path: _Optional[str] = ..., entries: _Optional[int] = ..., bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., evictions: _Optional[int] = ..., quarantined: _Optional[int] = ..., note: _Optional[str] = ..., shared: _Optional[_Union[SharedStoreStatus, _Mapping]] = ...) -> None: ...

class SharedStoreStatus(_message.Message):
    __slots__ = ("url", "read_only", "hits", "absent", "refused", "unread", "written", "unwritten", "queued", "note")
    URL_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    UNWRITTEN_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    url: str
    read_only: bool
    hits: int
    absent: int
    refused: int
    unread: int
    written: int
    unwritten: int
    queued: int
    note: str
    def __init__(self, url: _Optional[str] = ..., read_only: bool = ..., hits: _Optional[int] = ..., absent: _Optional[int] = ..., refused: _Optional[int] = ..., unread: _Optional[int] = ..., written: _Optional[int] = ..., unwritten: _Optional[int] = ..., queued: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class RunningCompile(_message.Message):
    __slots__ = ("key", "kind", "state", "elapsed_seconds", "waiters", "attempt", "nodes", "job", "waiting_ranks")
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    WAITING_RANKS_FIELD_NUMBER: _ClassVar[int]
    key: str
    kind: _compiler_pb2.GraphKind
    state: _compiler_pb2.CompileState
    elapsed_seconds: float
    waiters: int
    attempt: int
    nodes: int
    job: str
    waiting_ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, key: _Optional[str] = ..., kind: _Optional[_Union[_compiler_pb2.GraphKind, str]] = ..., state: _Optional[_Union[_compiler_pb2.CompileState, str]] = ..., elapsed_seconds: _Optional[float] = ..., waiters: _Optional[int] = ..., attempt: _Optional[int] = ..., nodes: _Optional[int] = ..., job: _Optional[str] = ..., waiting_ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class Totals(_message.Message):
    __slots__ = ("requests", "hits", "joined", "led", "compiles", "failures", "saved_seconds", "compile_seconds")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    LED_FIELD_NUMBER: _ClassVar[int]
    COMPILES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SAVED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COMPILE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    requests: int
    hits: int
    joined: int
    led: int
    compiles: int
    failures: int
    saved_seconds: float
    compile_seconds: float
    def __init__(self, requests: _Optional[int] = ..., hits: _Optional[int] = ..., joined: _Optional[int] = ..., led: _Optional[int] = ..., compiles: _Optional[int] = ..., failures: _Optional[int] = ..., saved_seconds: _Optional[float] = ..., compile_seconds: _Optional[float] = ...) -> None: ...

class JobSummary(_message.Message):
    __slots__ = ("job", "ranks", "world_size", "graphs", "compiles", "sum", "last_seen_seconds_ago", "waiting")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    GRAPHS_FIELD_NUMBER: _ClassVar[int]
    COMPILES_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_SECONDS_AGO_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    job: str
    ranks: int
    world_size: int
    graphs: int
    compiles: int
    sum: _compiler_pb2.RankStats
    last_seen_seconds_ago: float
    waiting: int
    def __init__(self, job: _Optional[str] = ..., ranks: _Optional[int] = ..., world_size: _Optional[int] = ..., graphs: _Optional[int] = ..., compiles: _Optional[int] = ..., sum: _Optional[_Union[_compiler_pb2.RankStats, _Mapping]] = ..., last_seen_seconds_ago: _Optional[float] = ..., waiting: _Optional[int] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: JobSummary
    def __init__(self, job: _Optional[_Union[JobSummary, _Mapping]] = ...) -> None: ...

class GetTimelineRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class GetTimelineResponse(_message.Message):
    __slots__ = ("timeline",)
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    timeline: Timeline
    def __init__(self, timeline: _Optional[_Union[Timeline, _Mapping]] = ...) -> None: ...

class Timeline(_message.Message):
    __slots__ = ("job", "taken_unix", "compiles", "compiles_dropped", "ranks")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TAKEN_UNIX_FIELD_NUMBER: _ClassVar[int]
    COMPILES_FIELD_NUMBER: _ClassVar[int]
    COMPILES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    job: JobSummary
    taken_unix: float
    compiles: _containers.RepeatedCompositeFieldContainer[_timeline_pb2.CompileRecord]
    compiles_dropped: int
    ranks: _containers.RepeatedCompositeFieldContainer[_timeline_pb2.RankTimeline]
    def __init__(self, job: _Optional[_Union[JobSummary, _Mapping]] = ..., taken_unix: _Optional[float] = ..., compiles: _Optional[_Iterable[_Union[_timeline_pb2.CompileRecord, _Mapping]]] = ..., compiles_dropped: _Optional[int] = ..., ranks: _Optional[_Iterable[_Union[_timeline_pb2.RankTimeline, _Mapping]]] = ...) -> None: ...

class GetCutsRequest(_message.Message):
    __slots__ = ("job", "key")
    JOB_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    job: str
    key: str
    def __init__(self, job: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GetCutsResponse(_message.Message):
    __slots__ = ("cuts", "dropped")
    CUTS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    cuts: _containers.RepeatedCompositeFieldContainer[JobCut]
    dropped: int
    def __init__(self, cuts: _Optional[_Iterable[_Union[JobCut, _Mapping]]] = ..., dropped: _Optional[int] = ...) -> None: ...

class JobCut(_message.Message):
    __slots__ = ("job", "cut", "ranks")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    job: str
    cut: _cut_pb2.GraphCut
    ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job: _Optional[str] = ..., cut: _Optional[_Union[_cut_pb2.GraphCut, _Mapping]] = ..., ranks: _Optional[_Iterable[int]] = ...) -> None: ...

class ListEntriesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEntriesResponse(_message.Message):
    __slots__ = ("entries", "next_page_token")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    next_page_token: str
    def __init__(self, entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("key", "kind", "size", "sha256", "created_unix", "used_unix", "uses", "compile_seconds", "toolchain", "key_parts", "nodes", "job")
    class KeyPartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CREATED_UNIX_FIELD_NUMBER: _ClassVar[int]
    USED_UNIX_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    COMPILE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOOLCHAIN_FIELD_NUMBER: _ClassVar[int]
    KEY_PARTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    key: str
    kind: _compiler_pb2.GraphKind
    size: int
    sha256: bytes
    created_unix: float
    used_unix: float
    uses: int
    compile_seconds: float
    toolchain: _compiler_pb2.Toolchain
    key_parts: _containers.ScalarMap[str, str]
    nodes: int
    job: str
    def __init__(self, key: _Optional[str] = ..., kind: _Optional[_Union[_compiler_pb2.GraphKind, str]] = ..., size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., created_unix: _Optional[float] = ..., used_unix: _Optional[float] = ..., uses: _Optional[int] = ..., compile_seconds: _Optional[float] = ..., toolchain: _Optional[_Union[_compiler_pb2.Toolchain, _Mapping]] = ..., key_parts: _Optional[_Mapping[str, str]] = ..., nodes: _Optional[int] = ..., job: _Optional[str] = ...) -> None: ...

class GetEntryRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class GetEntryResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: Entry
    def __init__(self, entry: _Optional[_Union[Entry, _Mapping]] = ...) -> None: ...

class VerifyStoreRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VerifyStoreResponse(_message.Message):
    __slots__ = ("checked", "quarantined")
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    checked: int
    quarantined: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, checked: _Optional[int] = ..., quarantined: _Optional[_Iterable[str]] = ...) -> None: ...

class CollectGarbageRequest(_message.Message):
    __slots__ = ("max_bytes",)
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    max_bytes: int
    def __init__(self, max_bytes: _Optional[int] = ...) -> None: ...

class CollectGarbageResponse(_message.Message):
    __slots__ = ("evicted", "freed_bytes", "bytes")
    EVICTED_FIELD_NUMBER: _ClassVar[int]
    FREED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    evicted: int
    freed_bytes: int
    bytes: int
    def __init__(self, evicted: _Optional[int] = ..., freed_bytes: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ReadArtifactRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class ReadArtifactResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    def __init__(self, chunk: _Optional[bytes] = ...) -> None: ...

class PutArtifactRequest(_message.Message):
    __slots__ = ("size", "key", "chunk")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    size: int
    key: str
    chunk: bytes
    def __init__(self, size: _Optional[int] = ..., key: _Optional[str] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class PutArtifactResponse(_message.Message):
    __slots__ = ("outcome", "reason")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    outcome: PutOutcome
    reason: str
    def __init__(self, outcome: _Optional[_Union[PutOutcome, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("drain_seconds",)
    DRAIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    drain_seconds: float
    def __init__(self, drain_seconds: _Optional[float] = ...) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
