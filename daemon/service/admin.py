"""AdminService: state, store, stop. Translates; the parts themselves decide.

The owner sees everything, with the tenant before keys and jobs. A tenant sees what is its own, without its name; what
concerns the daemon as a whole never comes here from a tenant (see ``auth.gate``).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc

from inductord.daemon.accounts import Accounts
from inductord.daemon.auth.gate import current_caller
from inductord.daemon.blobs import CHUNK_BYTES
from inductord.daemon.entries import entry_of
from inductord.daemon.errors import GaveUp, InvalidRequest, NotFound, OverLimit
from inductord.daemon.imports import Imports
from inductord.daemon.orders import check_key, check_key_prefix
from inductord.daemon.shared.events import Put
from inductord.daemon.shared.sealed import MAX_OVERHEAD_BYTES, Refusal
from inductord.daemon.status import StatusBoard
from inductord.daemon.store import Record, Store
from inductord.daemon.tenancy import is_tenant, scoped, split
from inductord.v1 import admin_pb2 as pb
from inductord.v1.admin_pb2_grpc import AdminServiceServicer

_PAGE = 100
_MAX_PAGE = 1000
_MIN_INTERVAL_S = 0.1
_MAX_INTERVAL_S = 60.0
_UPLOAD_S = 300.0
_MAX_DRAIN_S = 24 * 3600.0

_Context = grpc.aio.ServicerContext[Any, Any]


class AdminService(AdminServiceServicer):
    """``stop`` is called with the drain time that a client asked for, or None, and returns at once."""

    def __init__(
        self,
        *,
        board: StatusBoard,
        accounts: Accounts,
        store: Store,
        imports: Imports,
        stop: Callable[[float | None], None],
    ) -> None:
        self._board = board
        self._accounts = accounts
        self._store = store
        self._imports = imports
        self._stop = stop

    async def GetStatus(self, request: pb.GetStatusRequest, context: _Context) -> pb.GetStatusResponse:
        """The status now."""
        return pb.GetStatusResponse(status=self._board.status(current_caller()))

    async def WatchStatus(self, request: pb.WatchStatusRequest, context: _Context) -> None:
        """The status at each interval; it ends with the first that says ``draining``, so as not to hold up the stop."""
        interval = request.interval_seconds or 1.0
        if not _MIN_INTERVAL_S <= interval <= _MAX_INTERVAL_S:
            raise InvalidRequest(
                f"an interval has {_MIN_INTERVAL_S:g} to {_MAX_INTERVAL_S:g} seconds, not {interval:g}."
            )
        while True:
            status = self._board.status(current_caller())
            await context.write(pb.WatchStatusResponse(status=status))
            if status.draining:
                return
            await asyncio.sleep(interval)

    async def GetJob(self, request: pb.GetJobRequest, context: _Context) -> pb.GetJobResponse:
        """Sums over one job."""
        summary = self._accounts.job(current_caller(), request.job)
        if summary is None:
            raise NotFound(_no_such_job(request.job))
        return pb.GetJobResponse(job=summary)

    async def GetTimeline(self, request: pb.GetTimelineRequest, context: _Context) -> None:
        """When things happened in one job, in parts: no message grows with the number of ranks."""
        parts = self._accounts.timeline(current_caller(), request.job)
        if parts is None:
            raise NotFound(_no_such_job(request.job) if request.job else "no job was seen yet.")
        for part in parts:
            await context.write(pb.GetTimelineResponse(timeline=part))

    async def GetCuts(self, request: pb.GetCutsRequest, context: _Context) -> pb.GetCutsResponse:
        """How graphs were cut."""
        if request.job and request.key:
            raise InvalidRequest("cuts are asked for by job or by key, not by both.")
        if request.key:
            _scoped(request.key, check_key_prefix)
        cuts, dropped = self._accounts.cuts(current_caller(), job=request.job, key=request.key)
        if not cuts:
            raise NotFound(_no_cut(request, dropped))
        return pb.GetCutsResponse(cuts=cuts, dropped=dropped)

    async def ListEntries(self, request: pb.ListEntriesRequest, context: _Context) -> pb.ListEntriesResponse:
        """One page of the store."""
        size = request.page_size or _PAGE
        if size > _MAX_PAGE:
            raise InvalidRequest(f"a page has at most {_MAX_PAGE} entries, not {size}.")
        after = _scoped(request.page_token, check_key) if request.page_token else None
        caller = current_caller()
        records = self._store.list(after=after, limit=size, tenant=None if caller.local else caller.tenant)
        return pb.ListEntriesResponse(
            entries=[_entry(record) for record in records],
            next_page_token=_shown(records[-1].key) if len(records) == size else "",
        )

    async def GetEntry(self, request: pb.GetEntryRequest, context: _Context) -> pb.GetEntryResponse:
        """One entry by its key or the beginning of it."""
        records = self._store.match(_scoped(request.key, check_key_prefix))
        if not records:
            raise NotFound(f"no entry's key begins with {request.key}.")
        if len(records) > 1:
            raise InvalidRequest(f"{len(records)} keys begin with {request.key}; give more digits.")
        return pb.GetEntryResponse(entry=_entry(records[0], await self._store.key_parts(records[0].key)))

    async def VerifyStore(self, request: pb.VerifyStoreRequest, context: _Context) -> pb.VerifyStoreResponse:
        """Read everything."""
        checked, quarantined = await self._store.verify()
        return pb.VerifyStoreResponse(checked=checked, quarantined=quarantined)

    async def CollectGarbage(self, request: pb.CollectGarbageRequest, context: _Context) -> pb.CollectGarbageResponse:
        """Evict down to a size."""
        target = request.max_bytes if request.HasField("max_bytes") else None
        evicted, freed = await self._store.collect(target)
        return pb.CollectGarbageResponse(evicted=evicted, freed_bytes=freed, bytes=self._store.status().bytes)

    async def ReadArtifact(self, request: pb.ReadArtifactRequest, context: _Context) -> None:
        """One artifact in chunks."""
        key = check_key(request.key)
        with self._store.pin(key):
            found = await self._store.read(key, counts=False)
            if found is None:
                raise NotFound(f"{key} is not stored, or its artifact was damaged.")
            data = found[1]
            for start in range(0, len(data), CHUNK_BYTES):
                await context.write(pb.ReadArtifactResponse(chunk=data[start : start + CHUNK_BYTES]))

    async def PutArtifact(
        self, requests: AsyncIterator[pb.PutArtifactRequest], context: _Context
    ) -> pb.PutArtifactResponse:
        """Store one sealed artifact."""
        self._imports.check()
        try:
            async with asyncio.timeout(_UPLOAD_S):
                key, sealed = await _upload(requests, self._imports.max_artifact_bytes)
        except TimeoutError:
            raise GaveUp(f"the artifact took longer than {_UPLOAD_S:g} s to arrive.") from None
        result = await self._imports.put(key, sealed)
        if isinstance(result, Refusal):
            return pb.PutArtifactResponse(outcome=pb.PUT_OUTCOME_REFUSED, reason=result)
        outcome = pb.PUT_OUTCOME_STORED if result is Put.STORED else pb.PUT_OUTCOME_PRESENT
        return pb.PutArtifactResponse(outcome=outcome)

    async def Shutdown(self, request: pb.ShutdownRequest, context: _Context) -> pb.ShutdownResponse:
        """Begin to drain."""
        drain = request.drain_seconds if request.HasField("drain_seconds") else None
        # NaN fails every comparison.
        if drain is not None and not 0 <= drain <= _MAX_DRAIN_S:
            raise InvalidRequest(f"a drain time has 0 to {_MAX_DRAIN_S:g} seconds, not {drain:g}.")
        self._stop(drain)
        return pb.ShutdownResponse()


def _no_such_job(job: str) -> str:
    return f"no rank of the job {job[:80]!r} was seen, or it was long ago."


def _no_cut(request: pb.GetCutsRequest, dropped: int) -> str:
    older = f" {dropped} older ones are not kept." if dropped else ""
    if request.key:
        return f"no rank told of a graph that was compiled under a key with the beginning {request.key[:12]}.{older}"
    if request.job:
        return f"no rank of the job {request.job[:80]!r} told how its graphs were cut.{older}"
    return "no rank told yet how its graphs were cut."


def _scoped(key: str, check: Callable[[str], str]) -> str:
    """What the caller means by ``key``. The owner may name a tenant before it."""
    caller = current_caller()
    tenant, plain = split(key) if caller.local else (caller.tenant, key)
    if caller.local and tenant and not is_tenant(tenant):
        raise InvalidRequest(f"{tenant[:80]!r} is no name of a tenant.")
    return scoped(tenant, check(plain))


def _shown(scoped_key: str) -> str:
    """A key as the caller knows it."""
    return scoped_key if current_caller().local else split(scoped_key)[1]


def _entry(record: Record, key_parts: Mapping[str, str] | None = None) -> pb.Entry:
    entry = entry_of(record, key_parts)
    entry.key = _shown(record.key)
    return entry


async def _upload(requests: AsyncIterator[pb.PutArtifactRequest], max_artifact_bytes: int) -> tuple[str, bytes]:
    """Key and bytes of a sealed object, as they were announced."""
    first = await anext(requests, None)
    if first is None:
        raise InvalidRequest("an artifact has at least one message.")
    key, size = check_key(first.key), first.size
    if size > max_artifact_bytes + MAX_OVERHEAD_BYTES:
        raise OverLimit(f"the object has {size} bytes; max_artifact_bytes is {max_artifact_bytes}.")
    sealed = bytearray(first.chunk)
    async for message in requests:
        sealed += message.chunk
        if len(sealed) > size:
            break
    if len(sealed) != size:
        raise InvalidRequest(f"{len(sealed)} bytes came instead of the {size} that were announced.")
    return key, bytes(sealed)
