"""AdminService: state, store, stop. Translates; the parts themselves decide."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from inductord.daemon.entries import entry_of
from inductord.daemon.errors import InvalidRequest, NotFound
from inductord.daemon.jobs import JobTable
from inductord.daemon.orders import check_key, check_key_prefix
from inductord.daemon.status import StatusBoard
from inductord.daemon.store import Store
from inductord.v1 import admin_pb2 as pb
from inductord.v1.admin_pb2_grpc import AdminServiceServicer

_PAGE = 100
_MAX_PAGE = 1000
_MIN_INTERVAL_S = 0.1
_MAX_INTERVAL_S = 60.0
_MAX_DRAIN_S = 24 * 3600.0

_Context = grpc.aio.ServicerContext[Any, Any]


class AdminService(AdminServiceServicer):
    """``stop`` is called with the drain time that a client asked for, or None, and returns at once."""

    def __init__(
        self, *, board: StatusBoard, jobs: JobTable, store: Store, stop: Callable[[float | None], None]
    ) -> None:
        self._board = board
        self._jobs = jobs
        self._store = store
        self._stop = stop

    async def GetStatus(self, request: pb.GetStatusRequest, context: _Context) -> pb.GetStatusResponse:
        """The status now."""
        return pb.GetStatusResponse(status=self._board.status())

    async def WatchStatus(self, request: pb.WatchStatusRequest, context: _Context) -> None:
        """The status at each interval; it ends with the first that says ``draining``, so as not to hold up the stop."""
        interval = request.interval_seconds or 1.0
        if not _MIN_INTERVAL_S <= interval <= _MAX_INTERVAL_S:
            raise InvalidRequest(
                f"an interval has {_MIN_INTERVAL_S:g} to {_MAX_INTERVAL_S:g} seconds, not {interval:g}."
            )
        while True:
            status = self._board.status()
            await context.write(pb.WatchStatusResponse(status=status))
            if status.draining:
                return
            await asyncio.sleep(interval)

    async def GetJob(self, request: pb.GetJobRequest, context: _Context) -> pb.GetJobResponse:
        """Sums over one job."""
        summary = self._jobs.summary(request.job)
        if summary is None:
            raise NotFound(_no_such_job(request.job))
        return pb.GetJobResponse(job=summary)

    async def GetTimeline(self, request: pb.GetTimelineRequest, context: _Context) -> None:
        """When things happened in one job, in parts: no message grows with the number of ranks."""
        parts = self._jobs.timeline(request.job)
        if parts is None:
            raise NotFound(_no_such_job(request.job) if request.job else "no job was seen yet.")
        for part in parts:
            await context.write(pb.GetTimelineResponse(timeline=part))

    async def ListEntries(self, request: pb.ListEntriesRequest, context: _Context) -> pb.ListEntriesResponse:
        """One page of the store."""
        size = request.page_size or _PAGE
        if size > _MAX_PAGE:
            raise InvalidRequest(f"a page has at most {_MAX_PAGE} entries, not {size}.")
        after = check_key(request.page_token) if request.page_token else None
        records = self._store.list(after=after, limit=size)
        return pb.ListEntriesResponse(
            entries=[entry_of(record) for record in records],
            next_page_token=records[-1].key if len(records) == size else "",
        )

    async def GetEntry(self, request: pb.GetEntryRequest, context: _Context) -> pb.GetEntryResponse:
        """One entry by its key or the beginning of it."""
        records = self._store.match(check_key_prefix(request.key))
        if not records:
            raise NotFound(f"no entry's key begins with {request.key}.")
        if len(records) > 1:
            raise InvalidRequest(f"{len(records)} keys begin with {request.key}; give more digits.")
        return pb.GetEntryResponse(entry=entry_of(records[0], await self._store.key_parts(records[0].key)))

    async def VerifyStore(self, request: pb.VerifyStoreRequest, context: _Context) -> pb.VerifyStoreResponse:
        """Read everything."""
        checked, quarantined = await self._store.verify()
        return pb.VerifyStoreResponse(checked=checked, quarantined=quarantined)

    async def CollectGarbage(self, request: pb.CollectGarbageRequest, context: _Context) -> pb.CollectGarbageResponse:
        """Evict down to a size."""
        target = request.max_bytes if request.HasField("max_bytes") else None
        evicted, freed = await self._store.collect(target)
        return pb.CollectGarbageResponse(evicted=evicted, freed_bytes=freed, bytes=self._store.status().bytes)

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
