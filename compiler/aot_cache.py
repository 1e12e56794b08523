"""PyTorch's remote caches, answered by the daemon: a second job finds what AOTAutograd made, and does not trace again.

A result of AOTAutograd names the compiled graphs that it calls. What is kept with it says how the daemon is asked for them, so
a result is only given when its graphs came. Nothing here ever raises into PyTorch: what fails is a miss, counted.
"""

import collections
import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from inductord.compiler import payload
from inductord.compiler.adapter import (
    ambient,
    placement,
    remote_cache,
    replaced_methods,
    replaced_parts,
    toolchain,
    traced_code,
)
from inductord.compiler.adapter.placement import Placement
from inductord.compiler.client import Client
from inductord.compiler.cut_log import note_key
from inductord.compiler.keys import make_key
from inductord.compiler.reasons import Fallback
from inductord.compiler.remote_caches import CacheResult, RemoteCache
from inductord.compiler.settings import RankSettings
from inductord.compiler.telemetry import Telemetry
from inductord.compiler.unavailable import Unavailable, as_unavailable
from inductord.compiler.versions import this_version
from inductord.v1 import cache_pb2 as pb
from inductord.v1.cache_pb2_grpc import CacheServiceStub
from inductord.v1.compiler_pb2 import OpenCompile, StageKind

log = logging.getLogger("inductord")

_TIMEOUT_S = 10.0
# For each graph of a result. What takes longer is not there, and the graph is asked for, and waited for, as any other.
_GRAPH_TIMEOUT_S = 30.0
_AVOID_SILENT_S = 60.0
_MAX_VALUE = 8 << 20
_REMEMBERED = 10_000


class _Gone(Exception):
    """The graph is not to be had here: the daemon has it no more and would have to be sent it, or it is of another device."""


class AotCache:
    """What PyTorch's remote caches hold, by way of the daemon, while ``wanted``."""

    def __init__(
        self, settings: RankSettings, client: Client, telemetry: Telemetry, wanted: Callable[[], bool]
    ) -> None:
        self._wanted = wanted
        self._settings = settings
        self._client = client
        self._telemetry = telemetry
        self._avoid_until = 0.0
        self._lock = threading.Lock()
        self._shared: set[str] = set()
        self._made: collections.deque[tuple[weakref.ref[Any], pb.AotGraph]] = collections.deque(maxlen=_REMEMBERED)

    def came(self, compiled: Any, request: OpenCompile, where: Placement) -> None:
        """A compiled graph came from the daemon, or went there, asked for in this way."""
        device = pb.AotDevice(index=where.own, travels_as=where.travels_as) if where.accelerator else None
        with self._lock:
            self._made.append((weakref.ref(compiled), pb.AotGraph(request=request, device=device)))

    def get(self, cache: str, key: str) -> bytes | None:
        """The value that PyTorch asks for, or None."""
        if cache == RemoteCache.AOTAUTOGRAD:
            taken = self.take(cache, key) if self._is_shared(cache, key) else None
            return None if taken is None else taken[0]
        if not self._wanted():
            return None
        try:
            value = self._get(cache, self._place(key))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a cache, PyTorch goes on without
            self.failed(cache, "read", error)
            return None
        self._count(cache, CacheResult.MISS if value is None else CacheResult.HIT)
        return value

    def _is_shared(self, cache: str, key: str) -> bool:
        """Whether a result of AOTAutograd is for other processes too: PyTorch's key has all that it was made of. PyTorch asks
        for it while it has the graph, and may give it when that is long gone."""
        if code := traced_code.unshared():
            self.skipped(cache, code)
            return False
        self._shared.add(key)
        return True

    def take(self, cache: str, key: str) -> tuple[bytes, list[remote_cache.Named]] | None:
        """A value and the graphs that it names, which PyTorch's local cache then has; or None."""
        if not self._wanted():
            return None
        try:
            value = self._get(cache, self._place(key))
            if value is None:
                self._count(cache, CacheResult.MISS)
                return None
            entry = pb.AotEntry.FromString(value)
            graphs = [self._fetch(graph) for graph in entry.graphs]
        except _Gone:
            self._count(cache, CacheResult.MISS)
            return None
        except Exception as error:  # noqa: BLE001 - as above
            self.failed(cache, "read", error)
            return None
        self._count(cache, CacheResult.HIT)
        return entry.content, graphs

    def put(self, cache: str, key: str, value: bytes) -> None:
        """Keep what PyTorch made."""
        if cache == RemoteCache.AOTAUTOGRAD:
            if key in self._shared:
                self._keep(cache, key, lambda: self._with_graphs(value, remote_cache.named_graphs(value)))
        else:
            self._keep(cache, key, lambda: value)

    def lay(self, cache: str, key: str, content: bytes, graphs: Sequence[remote_cache.Named] | None) -> None:
        """Keep a value with the graphs that it names. None, or one that did not come from the daemon: it is skipped."""
        self._keep(cache, key, lambda: self._with_graphs(content, graphs))

    def _keep(self, cache: str, key: str, make: Callable[[], bytes | None]) -> None:
        if not self._wanted():
            return
        try:
            kept = make()
            if kept is None or len(kept) > _MAX_VALUE:
                self._count(cache, CacheResult.SKIPPED)
                return
            request = pb.PutBlobRequest(cache=cache, key=self._place(key), value=kept)
            try:
                answer = CacheServiceStub(self._connected()).PutBlob(request, timeout=_TIMEOUT_S)
            except grpc.RpcError as error:
                raise as_unavailable(error) from error
            self._count(cache, CacheResult.KEPT if answer.kept else CacheResult.SKIPPED)
        except Exception as error:  # noqa: BLE001 - as above
            self.failed(cache, "written", error)

    def _place(self, key: str) -> str:
        # PyTorch's key knows neither the C++ compiler nor the CPU nor all settings of the process.
        self._connected()
        cxx = self._client.capabilities().cxx
        parts = {"remote": key}
        # Nor does it know these. A result whose graphs they decide is never kept: the graphs do not come from the daemon.
        if found := [*replaced_parts.found(), *replaced_methods.found()]:
            parts["replaced"] = repr(found)
        return make_key(parts, ambient.describe(), toolchain.describe(cxx)).digest

    def _connected(self) -> grpc.Channel:
        if time.monotonic() < self._avoid_until:
            raise Unavailable(Fallback.DAEMON_SILENT, "the daemon was silent")
        return self._client.channel()

    def _get(self, cache: str, key: str) -> bytes | None:
        try:
            answer = CacheServiceStub(self._connected()).GetBlob(
                pb.GetBlobRequest(cache=cache, key=key), timeout=_TIMEOUT_S
            )
        except grpc.RpcError as error:
            raise as_unavailable(error) from error
        return answer.value if answer.HasField("value") else None

    def _fetch(self, graph: pb.AotGraph) -> remote_cache.Named:
        """Have a graph in PyTorch's local cache, and say what it is called there."""
        note_key(graph.request.key)
        named = remote_cache.Named(graph.fx_key, graph.guards if graph.HasField("guards") else None)
        if remote_cache.has_graph(named):
            return named
        request = graph.request
        where = placement.again(request.toolchain.accelerator, graph.device.index, graph.device.travels_as)
        if where is None:
            raise _Gone("it is of another device")
        request.speculative = False
        request.client.CopyFrom(this_version())
        request.requester.CopyFrom(self._telemetry.requester())
        with self._telemetry.timeline.graph(request.kind, request.nodes) as span:
            span.identified(request.key)
            with span.stage(StageKind.STAGE_KIND_WAIT) as wait:
                max_wait = min(_GRAPH_TIMEOUT_S, self._settings.max_wait)
                received = self._client.compile(request, _gone, lambda _: None, max_wait, span.traceparent)
            # One that is gone is asked for once more, by whoever then compiles it.
            self._telemetry.requested(request.key, 0.0)
            with span.stage(StageKind.STAGE_KIND_LOAD) as load:
                artifact = payload.unpack_artifact(received.artifact, request.key)
                remote_cache.add_graph(named, artifact, where)
            span.served(received.served)
            self._telemetry.served(
                received.served, wait.seconds, load.seconds, received.compile_seconds, len(received.artifact)
            )
        return named

    def _with_graphs(self, content: bytes, named: Sequence[remote_cache.Named] | None) -> bytes | None:
        """A value with how its graphs are asked for; None when one of them did not come from the daemon."""
        if named is None:
            return None
        made = self._made_here()
        if any(graph.fx_key not in made for graph in named):
            return None
        graphs = [pb.AotGraph(fx_key=each.fx_key, guards=each.guards) for each in named]
        for graph in graphs:
            graph.MergeFrom(made[graph.fx_key])
        return pb.AotEntry(content=content, graphs=graphs).SerializeToString()

    def _made_here(self) -> Mapping[str, pb.AotGraph]:
        with self._lock:
            made = list(self._made)
        found = {}
        for reference, graph in made:
            key = remote_cache.fx_key(reference())
            if key is not None:
                found[key] = graph
        return found

    def _count(self, cache: str, result: CacheResult) -> None:
        self._telemetry.remote_cache(f"{cache} {result}")

    def skipped(self, cache: str, message: str) -> None:
        """Count and log, at level info, that something is not kept."""
        self._count(cache, CacheResult.SKIPPED)
        log.info("inductord: nothing is kept in the cache %s: %s", cache, message)

    def failed(self, cache: str, what: str, error: Exception) -> None:
        """Count and log, at level info, that an entry could not be used."""
        if isinstance(error, Unavailable) and error.reason is Fallback.DAEMON_SILENT:
            self._avoid_until = time.monotonic() + _AVOID_SILENT_S
        self._count(cache, CacheResult.FAILED)
        log.info("inductord: an entry of the cache %s cannot be %s: %s", cache, what, error)


def _gone() -> bytes:
    raise _Gone("the graph is not at hand: AOTAutograd has not made it in this process")
