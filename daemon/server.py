"""Puts the daemon together, runs it, and takes it apart in the right order. No decisions about requests here."""

import asyncio
import contextlib
import dataclasses
import enum
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import grpc.aio
import prometheus_client
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH_SERVICE
from grpc_health.v1.health import aio as health_aio  # type: ignore[attr-defined]  # absent from the stubs

from inductord import __version__
from inductord.compiler import otel
from inductord.compiler.address import AddressError
from inductord.daemon.accounts import Accounts
from inductord.daemon.activity import Activity
from inductord.daemon.auth.files import AuthError
from inductord.daemon.auth.listener import Listener
from inductord.daemon.cache import BlobCache
from inductord.daemon.config import DaemonConfig
from inductord.daemon.dispatch import Dispatcher
from inductord.daemon.graphs import GraphBuffer
from inductord.daemon.imports import Imports
from inductord.daemon.lifecycle import StopRequest
from inductord.daemon.listening import Listening, SocketBusy
from inductord.daemon.logs import configure_logging
from inductord.daemon.metrics.exporter import Exporter
from inductord.daemon.metrics.families import Metrics
from inductord.daemon.metrics.job_gauges import gather
from inductord.daemon.metrics.job_labels import LINGER_S
from inductord.daemon.metrics.live import LiveCollector, Snapshot
from inductord.daemon.metrics.ray import RayMetrics
from inductord.daemon.pools import ChosenPool, choose_pool
from inductord.daemon.scratch import ScratchUnusable, find_scratch, scratch_candidates
from inductord.daemon.service.admin import AdminService
from inductord.daemon.service.cache import CacheService
from inductord.daemon.service.compiler import CompilerService, ServiceLimits
from inductord.daemon.service.interceptor import Interceptor
from inductord.daemon.service.tuning import TuningService
from inductord.daemon.shared.errors import SharedStoreUnusable
from inductord.daemon.shared.keys import KeyFile
from inductord.daemon.status import StatusBoard
from inductord.daemon.store import Store, StoreBusy, StoreError
from inductord.daemon.tracing import Traces
from inductord.daemon.tuning import Tunings
from inductord.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    cache_pb2,
    cache_pb2_grpc,
    compiler_pb2,
    compiler_pb2_grpc,
    tuning_pb2,
    tuning_pb2_grpc,
)
from inductord.v1.compiler_pb2 import COMPILE_STATE_UPLOADING
from inductord.worker.singleflight import Limits, SingleFlight

if TYPE_CHECKING:
    from inductord.daemon.shared.store import SharedStore

_log = logging.getLogger("inductord.server")

MAX_MESSAGE_BYTES = 16 << 20
# How long streams may take to send what is decided once compiles are over, and workers to end.
_CLOSE_SECONDS = 5.0
_READING_SECONDS = 0.25

_SERVICES = (
    compiler_pb2.DESCRIPTOR.services_by_name["CompilerService"].full_name,
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name,
    tuning_pb2.DESCRIPTOR.services_by_name["TuningService"].full_name,
    cache_pb2.DESCRIPTOR.services_by_name["CacheService"].full_name,
)


class MetricsUnavailable(RuntimeError):
    """The metrics address cannot be had."""


class Exit(enum.IntEnum):
    """Exit codes of a daemon."""

    STOPPED = 0
    FAILED = 1
    SOCKET_BUSY = 3
    STORE_BUSY = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a daemon really listens. ``listen`` and ``metrics_address`` are empty when there is no such thing."""

    address: str
    listen: str
    metrics_address: str


async def serve(config: DaemonConfig, *, ready: Callable[[Endpoints], None] | None = None) -> int:
    """Run a daemon until it is asked to stop; ``ready`` is called once it answers. Returns an exit code (`Exit`).

    What keeps it from starting is logged, with what to do about it.
    """
    configure_logging(config.log_level, config.log_format)
    stop = StopRequest(config.drain_seconds)
    try:
        with stop.on_signals():
            async with _running(config, stop) as endpoints:
                if ready is not None:
                    ready(endpoints)
                await stop.wait()
    except SocketBusy as error:
        _log.error("%s", error)
        return Exit.SOCKET_BUSY
    except StoreBusy as error:
        _log.error("%s", error)
        return Exit.STORE_BUSY
    except (AddressError, AuthError, StoreError, ScratchUnusable, MetricsUnavailable, SharedStoreUnusable) as error:
        _log.error("%s", error)
        return Exit.FAILED
    return Exit.STOPPED


@contextlib.asynccontextmanager
async def _running(config: DaemonConfig, stop: StopRequest) -> AsyncIterator[Endpoints]:
    """A daemon that answers. On exit it drains and ends; what was opened last is closed first."""
    async with contextlib.AsyncExitStack() as stack:
        listening = Listening(config.address, config.socket_group)
        stack.callback(listening.close)
        registry = prometheus_client.CollectorRegistry()
        metrics = Metrics(registry)
        listener = Listener(
            config,
            connecting=metrics.tls_connecting,
            connected=metrics.tls_connected,
            failed=metrics.auth_failed,
            reload_failed=metrics.auth_reload_failed,
        )
        store = await Store.open(
            config.store_path, max_bytes=config.store_max_bytes, memory_bytes=config.memory_bytes, events=metrics
        )
        stack.push_async_callback(store.close)
        cache = CacheService(BlobCache(config.store_path / "cache.sqlite", time.time))
        stack.push_async_callback(cache.close)
        keys = KeyFile(config.shared_store_keys, metrics.auth_reload_failed) if config.shared_store_keys else None
        shared = _open_shared(config, keys, metrics)
        if shared is not None:
            stack.push_async_callback(shared.close)
        scratch = await asyncio.to_thread(find_scratch, scratch_candidates(config.scratch, config.store_path))
        pool = choose_pool(config, scratch, metrics.worker_failed, RayMetrics(registry))
        stack.push_async_callback(pool.stop, _CLOSE_SECONDS)
        accounts = Accounts(metrics, time.monotonic)
        spans = await asyncio.to_thread(otel.spans_of, "inductord-daemon")
        stack.push_async_callback(asyncio.to_thread, spans.close)
        traces = Traces(spans)
        dispatcher = Dispatcher(
            flights=SingleFlight(
                Limits(max_keys=config.max_queue, max_waiters=config.max_waiters, failure_ttl=config.failure_ttl),
                time.monotonic,
            ),
            store=store,
            pool=pool,
            graphs=GraphBuffer(config.max_pending_bytes),
            accounts=accounts,
            max_artifact_bytes=config.max_artifact_bytes,
            shared=shared,
            traces=traces,
        )
        live = LiveCollector(
            lambda: _snapshot(dispatcher, pool, store, cache, accounts, metrics), asyncio.get_running_loop()
        )
        metrics_address = await _export(config.metrics_address, registry, live, stack)
        activity = Activity(time.monotonic)
        server = _server(Interceptor(metrics, activity, listener.gate), config)
        listen = listener.bind(server)
        board = StatusBoard(
            dispatcher=dispatcher,
            pool=pool,
            store=store,
            shared=shared,
            accounts=accounts,
            address=config.address,
            listen=listen,
            metrics_address=metrics_address,
            draining=lambda: stop.asked,
        )
        limits = ServiceLimits(
            max_graph_bytes=config.max_graph_bytes,
            max_artifact_bytes=config.max_artifact_bytes,
            heartbeat_seconds=config.heartbeat_seconds,
        )
        compiler_pb2_grpc.add_CompilerServiceServicer_to_server(
            CompilerService(
                dispatcher=dispatcher, pool=pool, limits=limits, accounts=accounts, metrics=metrics, traces=traces
            ),
            server,
        )
        admin_pb2_grpc.add_AdminServiceServicer_to_server(
            AdminService(
                board=board,
                accounts=accounts,
                store=store,
                imports=Imports(store, keys, metrics.shared, config.max_artifact_bytes),
                stop=lambda drain: stop.ask("a client asked for it", drain),
            ),
            server,
        )
        tuning_pb2_grpc.add_TuningServiceServicer_to_server(TuningService(Tunings(store), metrics.tuned), server)
        cache_pb2_grpc.add_CacheServiceServicer_to_server(cache, server)
        servicer = health_aio.HealthServicer()
        for service in _SERVICES:
            await servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        with listening.binding():
            server.add_insecure_port(config.address)
        await server.start()
        stack.push_async_callback(server.stop, _CLOSE_SECONDS)
        stack.push_async_callback(_drain, dispatcher, stop)
        stack.push_async_callback(servicer.enter_graceful_shutdown)
        addresses = f"{config.address} and tcp://{listen}" if listen else config.address
        _log.info("inductord %s listens on %s, store %s", __version__, addresses, config.store_path)
        # Only now: the daemon answers before the pool is there.
        await pool.start()
        if config.idle_exit_seconds:
            idle = asyncio.create_task(stop.when_idle(activity, config.idle_exit_seconds), name="idle exit")
            stack.push_async_callback(_cancel, idle)
        yield Endpoints(config.address, listen, metrics_address)


def _open_shared(config: DaemonConfig, keys: KeyFile | None, metrics: Metrics) -> "SharedStore | None":
    if not config.shared_store:
        return None
    try:
        from inductord.daemon.shared.store import SharedLimits, open_shared
    except ModuleNotFoundError as error:
        raise SharedStoreUnusable(
            f"shared_store needs the package {error.name}, which is not installed: pip install 'inductord[shared]'."
        ) from error
    limits = SharedLimits(config.max_artifact_bytes, config.shared_store_timeout)
    return open_shared(config.shared_store, keys, limits, metrics.shared, read_only=config.shared_store_read_only)


def _server(interceptor: Interceptor, config: DaemonConfig) -> grpc.aio.Server:
    server = grpc.aio.server(
        interceptors=[interceptor],
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            # Two daemons on one port would each get some of the connections.
            ("grpc.so_reuseport", 0),
        ],
        # Streams that wait, and some room for all that does not.
        maximum_concurrent_rpcs=config.max_waiters + 1024,
    )
    if config.reflection:
        from grpc_reflection.v1alpha import reflection

        reflection.enable_server_reflection((*_SERVICES, HEALTH_SERVICE, reflection.SERVICE_NAME), server)
    return server


async def _export(
    address: str,
    registry: prometheus_client.CollectorRegistry,
    live: LiveCollector,
    stack: contextlib.AsyncExitStack,
) -> str:
    """Serve metrics if asked to. Returns the address."""
    registry.register(live)
    prometheus_client.ProcessCollector(registry=registry)
    if not address:
        return ""
    try:
        exporter = Exporter(registry, address)
    except OSError as error:
        raise MetricsUnavailable(
            f"metrics cannot be served on {address}: {error}. Set metrics_address to a free one; port 0 finds it."
        ) from error
    stack.push_async_callback(exporter.close)
    return exporter.address


def _snapshot(
    dispatcher: Dispatcher, pool: ChosenPool, store: Store, cache: CacheService, accounts: Accounts, metrics: Metrics
) -> Snapshot:
    running = dispatcher.running()
    return Snapshot(
        pool=pool.status(),
        store=store.status(),
        inflight=len(running),
        uploading=sum(entry.flight.state == COMPILE_STATE_UPLOADING for entry in running),
        waiting=dispatcher.waiting,
        graph_bytes=dispatcher.graphs.pending_bytes,
        cache_failures=cache.failures,
        loads=metrics.loads,
        load_seconds=metrics.load_seconds,
        jobs=gather(accounts.recent(LINGER_S), dispatcher.waiting_ranks(), metrics.ranks.labels),
    )


async def _drain(dispatcher: Dispatcher, stop: StopRequest) -> None:
    """Let running compiles end within the drain time, then give up the rest."""
    answering = bool(dispatcher.running())
    dispatcher.drain()
    try:
        async with asyncio.timeout(stop.drain_seconds):
            await dispatcher.drained()
    except TimeoutError:
        _log.warning("giving up %d compiles after %g s", len(dispatcher.running()), stop.drain_seconds)
    await dispatcher.abort()
    if answering:
        # A client that writes to a connection that we have closed may lose the answer that it has not read yet.
        await asyncio.sleep(_READING_SECONDS)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
