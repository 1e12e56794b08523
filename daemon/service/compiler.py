"""CompilerService: translates between the stream's messages and the dispatcher's events."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any

import grpc

from inductord.compiler import otel
from inductord.compiler.toolchain import cxx_identity
from inductord.compiler.versions import this_version
from inductord.daemon.accounts import Account, Accounts
from inductord.daemon.auth.gate import current_caller
from inductord.daemon.blobs import CHUNK_BYTES, check_header
from inductord.daemon.dispatch import Dispatcher, Waiter
from inductord.daemon.errors import ArtifactLost, GaveUp, OverLimit, ServiceError
from inductord.daemon.ledger import Ledger
from inductord.daemon.metrics.families import Metrics, Result
from inductord.daemon.orders import (
    Order,
    check_cuts,
    check_key,
    check_requester,
    check_seconds,
    check_stats,
    check_trace,
    parse_order,
)
from inductord.daemon.outbox import Broken, Delivery, Event
from inductord.daemon.service.errors import rejection
from inductord.daemon.service.stream import CompileStream, GraphUnavailable
from inductord.daemon.tenancy import scoped, short
from inductord.daemon.tracing import Traces, end_request
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.compiler_pb2_grpc import CompilerServiceServicer
from inductord.worker.pool import Pool
from inductord.worker.singleflight import AskGraph, Fail, Reject, Tell

MAX_LOOKUP_KEYS = 4096

# A rank that serialises a large graph is silent meanwhile.
_STALL_SECONDS = 30.0
_STALL_HEARTBEATS = 5
# A client that compiles by itself measures kernels, which takes minutes. One that dies is noticed by the end of its stream.
_COMPILE_THERE_SECONDS = 1800.0
# A corrupt entry is gone once it was found, so the second look is a miss; a third is a disk that eats all it is given.
_LOOKS = 3

_Context = grpc.aio.ServicerContext[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What ``GetCapabilities`` advertises. ``upload_seconds``: longest that a graph, or an artifact that a client made, may
    take on its way."""

    max_graph_bytes: int
    max_artifact_bytes: int
    heartbeat_seconds: float
    upload_seconds: float = 300.0

    @property
    def stall_seconds(self) -> float:
        """Longest silence of a client that was asked something or has to read something."""
        return max(_STALL_SECONDS, _STALL_HEARTBEATS * self.heartbeat_seconds)


class CompilerService(CompilerServiceServicer):
    """What ranks ask for."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        pool: Pool,
        limits: ServiceLimits,
        accounts: Accounts,
        metrics: Metrics,
        traces: Traces,
    ) -> None:
        self._traces = traces
        self._dispatcher = dispatcher
        self._pool = pool
        self._limits = limits
        self._accounts = accounts
        self._metrics = metrics

    @property
    def _account(self) -> Account:
        """That of who calls."""
        return self._accounts.of(current_caller().tenant)

    @property
    def _ledger(self) -> Ledger:
        return self._account.ledger

    async def GetCapabilities(
        self, request: pb.GetCapabilitiesRequest, context: _Context
    ) -> pb.GetCapabilitiesResponse:
        """What this daemon is, can do and allows."""
        return pb.GetCapabilitiesResponse(
            daemon=this_version(),
            # It runs the compiler the first time.
            cxx=await asyncio.to_thread(cxx_identity),
            max_graph_bytes=self._limits.max_graph_bytes,
            max_artifact_bytes=self._limits.max_artifact_bytes,
            chunk_bytes=CHUNK_BYTES,
            max_lookup_keys=MAX_LOOKUP_KEYS,
            heartbeat_seconds=self._limits.heartbeat_seconds,
            pool=self._pool.kind,
        )

    async def Lookup(self, request: pb.LookupRequest, context: _Context) -> pb.LookupResponse:
        """The states of some keys."""
        if len(request.keys) > MAX_LOOKUP_KEYS:
            raise OverLimit(f"{len(request.keys)} keys at once; {MAX_LOOKUP_KEYS} are allowed. Ask in several batches.")
        tenant = current_caller().tenant
        keys = [scoped(tenant, check_key(key)) for key in request.keys]
        return pb.LookupResponse(states=[self._dispatcher.state(key) for key in keys])

    async def ReportRank(self, request: pb.ReportRankRequest, context: _Context) -> pb.ReportRankResponse:
        """Take a rank's account of itself."""
        requester, jobs = check_requester(request.requester), self._account.jobs
        # All of it is checked before any of it counts.
        stats, trace, cuts = check_stats(request.stats), check_trace(request.trace), check_cuts(request.cuts)
        self._metrics.rank_reported(requester, jobs.report(requester, stats))
        taken = jobs.traced(requester, trace)
        jobs.cuts.add(requester, cuts)
        return pb.ReportRankResponse(answered_unix=time.time(), taken=taken)

    async def Compile(self, requests: AsyncIterator[pb.CompileRequest], context: _Context) -> None:
        """One graph, from lookup to artifact."""
        begun = time.monotonic()
        caller = current_caller()
        stream = CompileStream(requests, context, self._limits.stall_seconds)
        with self._counted(), contextlib.ExitStack() as done:
            message = await stream.opening()
            order = self._trace(parse_order(message, caller.tenant), context, stream, done)
            self._account.jobs.asked(message.requester, message.key)
            self._metrics.ranks.seen(order.job)
            # Who comes over the network has no business with our files, and may find others under their names.
            reads_files = message.reads_files and caller.local
            for _ in range(_LOOKS):
                if not self._dispatcher.stored(order.key):
                    with self._dispatcher.wait(order) as waiter:
                        await self._attend(waiter, stream, begun, reads_files=reads_files)
                    return
                with self._dispatcher.pinned(order.key):
                    if reads_files:
                        if await self._lend(stream, order, pb.SERVED_HIT, begun):
                            return
                        # Not again: what it cannot read now it cannot read later.
                        reads_files = False
                    if artifact := await self._dispatcher.load(order.key):
                        await self._deliver(stream, order, Delivery(pb.SERVED_HIT, artifact), begun)
                        return
        raise ArtifactLost(
            f"the artifact of {short(order.key)} was found corrupt {_LOOKS} times. It is quarantined; ask again."
        )

    def _trace(self, order: Order, context: _Context, stream: CompileStream, done: contextlib.ExitStack) -> Order:
        """The order with the context of a span that lasts until ``done``."""
        metadata = dict(context.invocation_metadata() or ())
        span = self._traces.request(order, otel.checked(metadata.get(otel.HEADER)))

        def end(kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
            end_request(span, stream.served, "" if error is None else f"{type(error).__name__}: {error}")

        done.push(end)
        return dataclasses.replace(order, traceparent=span.traceparent)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a request once by its end; what was served or failed is counted where it happens."""
        self._ledger.opened()
        try:
            yield
        except ServiceError:
            self._ledger.ended(Result.REJECTED)
            raise
        except asyncio.CancelledError:
            self._ledger.ended(Result.CANCELLED)
            raise
        except Exception:
            self._ledger.ended(Result.ERROR)
            raise

    async def _attend(self, waiter: Waiter, stream: CompileStream, begun: float, *, reads_files: bool) -> None:
        """Tell a waiting client what happens, until it is answered."""
        upload: asyncio.Task[None] | None = None
        try:
            while True:
                match await self._next_event(waiter):
                    case None:
                        continue
                    case AskGraph():
                        await stream.ask_graph(self._dispatcher.devices.measures(waiter.order))
                        upload = asyncio.create_task(
                            self._upload(waiter, stream), name=f"upload {short(waiter.order.key)}"
                        )
                        upload.add_done_callback(lambda task: _tell_broken(waiter, task))
                    case Tell(_, state, ahead):
                        await stream.progress(state, time.monotonic() - begun, ahead)
                    case Fail(_, failure):
                        self._ledger.ended(Result.FAILED)
                        await stream.failure(failure)
                        return
                    case Reject(_, reason):
                        raise rejection(reason)
                    case Broken(error):
                        raise error
                    case Delivery() as delivery:
                        order = waiter.order
                        with self._dispatcher.pinned(order.key):
                            if not (reads_files and await self._lend(stream, order, delivery.served, begun)):
                                await self._deliver(stream, order, delivery, begun)
                        return
        finally:
            if upload is not None:
                upload.cancel()

    async def _next_event(self, waiter: Waiter) -> Event | None:
        try:
            async with asyncio.timeout(self._limits.heartbeat_seconds):
                return await waiter.outbox.get()
        except TimeoutError:
            return self._dispatcher.progress(waiter)

    async def _upload(self, waiter: Waiter, stream: CompileStream) -> None:
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                header = await stream.graph_header()
                if header is not None:
                    await self._take_graph(waiter, stream, header)
            if header is None:
                await self._take_compiled(waiter, stream)
        except GraphUnavailable as reason:
            self._dispatcher.refused(waiter, str(reason))
        except TimeoutError:
            raise GaveUp(f"the upload took longer than {self._limits.upload_seconds:g} s.") from None

    async def _take_graph(self, waiter: Waiter, stream: CompileStream, header: pb.BlobHeader) -> None:
        check_header(header, self._limits.max_graph_bytes)
        with self._dispatcher.graphs.reserve(header.size):
            graph = await stream.graph(header)
            self._dispatcher.uploaded(waiter, graph)

    async def _take_compiled(self, waiter: Waiter, stream: CompileStream) -> None:
        """The client compiles the graph on its device, while its stream and those of the others stay alive."""
        compiled = await stream.compiled(_COMPILE_THERE_SECONDS)
        check_header(compiled.blob, self._limits.max_artifact_bytes)
        seconds = check_seconds("compile_seconds", compiled.compile_seconds)
        with self._dispatcher.graphs.reserve(compiled.blob.size):
            async with asyncio.timeout(self._limits.upload_seconds):
                artifact = await stream.graph(compiled.blob)
            await self._dispatcher.compiled_by_client(waiter, artifact, seconds)

    async def _lend(self, stream: CompileStream, order: Order, served: pb.Served, begun: float) -> bool:
        """Let the client read the stored file. False when there is none, or it cannot."""
        waited = time.monotonic() - begun
        lent = self._dispatcher.lend(order.key)
        if lent is None or not await stream.lend(lent, served):
            return False
        self._ledger.ready(order, served, waited)
        self._ledger.served(served, lent.header.size, lent.compile_seconds)
        return True

    async def _deliver(self, stream: CompileStream, order: Order, delivery: Delivery, begun: float) -> None:
        waited = time.monotonic() - begun
        artifact = delivery.artifact
        self._ledger.ready(order, delivery.served, waited)
        await stream.artifact(artifact, delivery.served)
        self._ledger.served(delivery.served, artifact.header.size, artifact.compile_seconds)


def _tell_broken(waiter: Waiter, upload: asyncio.Task[None]) -> None:
    if not upload.cancelled() and (error := upload.exception()):
        waiter.outbox.put(Broken(error))
