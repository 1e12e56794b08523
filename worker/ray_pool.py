"""The Ray pool as the daemon has it: a bridge process that speaks with Ray, and no Ray in here.

A ``RayPool`` lives as long as its bridge. When the bridge or the cluster is lost, every job ends with POOL_UNAVAILABLE,
``lost`` says why, and whoever owns the pool makes another one.
"""

import asyncio
import dataclasses
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from inductord.v1.admin_pb2 import PoolStatus
from inductord.v1.bridge_pb2 import BridgeDone, BridgeJob, BridgeReply, BridgeRequest
from inductord.v1.compiler_pb2 import FailureKind
from inductord.worker import framing
from inductord.worker.child import ChildProcess
from inductord.worker.failures import describe_end
from inductord.worker.limits import this_machine
from inductord.worker.pool import Compiled, Failed, Job, Outcome, PoolUnavailable, Priority, failed

_log = logging.getLogger("inductord.pool")

# The bridge says something every second.
_SILENCE_SECONDS = 20.0
_COMMAND = (sys.executable, "-m", "inductord.worker.ray_bridge")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RayPoolConfig:
    """Times in seconds. The other settings are for the cluster's workers, and hold if this daemon is the first of the cluster.

    ``address``: None for the cluster that ``RAY_ADDRESS`` names, else a Ray of this node's own; ``local`` for the latter
    always; else what ``ray.init`` takes, e.g. ``ray://host:10001``. ``max_workers``: None for as many as the cluster has room
    for. ``labels``: parts of a toolchain by which nodes are labelled. ``command``: how a worker process is started, None for
    the cluster's own Python.
    """

    scratch: Path
    max_artifact_bytes: int
    address: str | None = None
    connect_timeout: float = 45.0
    max_workers: int | None = None
    min_warm: int = 1
    idle_seconds: float = 300.0
    compile_timeout: float = 600.0
    room_timeout: float = 60.0
    worker_memory_bytes: int | None = None
    labels: Sequence[str] = ()
    command: Sequence[str] | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    max_keys: int = 65536
    max_waiters: int = 1 << 20
    failure_ttl: float = 300.0

    def arguments(self) -> list[str]:
        """For the bridge's command line."""
        crews = {
            name: getattr(self, name)
            for name in (
                *("max_artifact_bytes", "max_workers", "min_warm", "idle_seconds", "compile_timeout", "room_timeout"),
                *("worker_memory_bytes", "labels", "command", "environment"),
            )
        }
        flights = {name: getattr(self, name) for name in ("max_keys", "max_waiters", "failure_ttl")}
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        if address == "local" and self.max_workers is None:
            crews["max_workers"] = this_machine().max_workers()
        return [
            *("--address", address),
            *("--scratch", str(self.scratch)),
            *("--crews", json.dumps(crews)),
            *("--limits", json.dumps(flights)),
        ]


@dataclasses.dataclass(slots=True, eq=False)
class _Waiting:
    started: Callable[[], None]
    ending: "asyncio.Future[Outcome]"


class _BridgeProcess(ChildProcess):
    kind = "ray bridge"

    async def send(self, request: BridgeRequest) -> None:
        await framing.send_frame(self._sock, request.SerializeToString())

    async def receive(self) -> bytes:
        """The next frame. Raises OSError when there is none, also for a bridge that fell silent."""
        async with asyncio.timeout(_SILENCE_SECONDS):
            frame = await framing.receive_frame(self._sock)
        if frame is None:
            raise ConnectionError("it closed its connection")
        return bytes(frame)


class RayPool:
    """Implements ``inductord.worker.pool.Pool``. One life: ``start``, then ``stop``."""

    kind = "ray"

    def __init__(self, config: RayPoolConfig) -> None:
        self._config = config
        self._bridge: _BridgeProcess | None = None
        self._status = PoolStatus(kind=self.kind)
        self._ids = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._sending = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when this pool can compile nothing more."""

    async def start(self) -> None:
        """See ``Pool.start``. Waits for the connection: seconds."""
        try:
            await self._connect()
        except PoolUnavailable as error:
            self._end(str(error))
            raise

    async def _connect(self) -> None:
        config = self._config
        try:
            self._bridge = await _BridgeProcess.spawn(_COMMAND, config.arguments())
            async with asyncio.timeout(config.connect_timeout):
                reply = await self._first()
        except TimeoutError as error:
            raise PoolUnavailable(f"Ray was not there within {config.connect_timeout:g} s") from error
        except OSError as error:
            raise PoolUnavailable(f"the bridge to Ray cannot be started: {error}") from error
        if reply.WhichOneof("message") == "unavailable":
            raise PoolUnavailable(reply.unavailable)
        self._take_status(reply.ready.status)
        self._listening = asyncio.create_task(self._listen(self._bridge), name="ray bridge")

    async def _first(self) -> BridgeReply:
        bridge = self._bridge
        assert bridge is not None
        while True:
            try:
                return BridgeReply.FromString(await bridge.receive())
            except TimeoutError:
                continue  # Connecting takes its time; the caller bounds it.
            except (OSError, DecodeError) as error:
                await bridge.until_ended()
                raise PoolUnavailable(self._how_it_ended(bridge, error)) from error

    async def compile(self, job: Job, started: Callable[[], None]) -> Outcome:
        """See ``Pool.compile``."""
        bridge = self._bridge
        if bridge is None or self.lost.done():
            return _unavailable(self.lost.result() if self.lost.done() else "it is not started")
        number = next(self._ids)
        waiting = _Waiting(started, asyncio.get_running_loop().create_future())
        self._waiting[number] = waiting
        message = BridgeJob(
            id=number,
            key=job.key,
            toolchain=job.toolchain,
            speculative=job.priority == Priority.SPECULATIVE,
            needs_device=job.needs_device,
            graph=job.graph,
            tenant=job.tenant,
            traceparent=job.traceparent,
        )
        try:
            await self._send(BridgeRequest(job=message))
            return await waiting.ending
        except asyncio.CancelledError:
            if not self.lost.done():
                await self._send(BridgeRequest(cancel=number))
            raise
        finally:
            del self._waiting[number]

    def promote(self, key: str) -> None:
        """See ``Pool.promote``."""
        if not self.lost.done():
            # Kept by the loop as long as it waits for the lock or the socket.
            promoting = asyncio.ensure_future(self._send(BridgeRequest(promote=key)))
            promoting.add_done_callback(lambda _: None)

    def status(self) -> PoolStatus:
        """See ``Pool.status``."""
        status = PoolStatus()
        status.CopyFrom(self._status)
        return status

    async def stop(self, grace: float) -> None:
        """See ``Pool.stop``. A Ray of this node's own ends; a cluster goes on."""
        self._end("the pool is stopped")
        if self._listening is not None:
            self._listening.cancel()
        if self._bridge is not None:
            bridge, self._bridge = self._bridge, None
            bridge.hang_up()
            await asyncio.wait({bridge.ended}, timeout=grace)
            await bridge.close()

    async def _send(self, request: BridgeRequest) -> None:
        assert self._bridge is not None
        async with self._sending:
            try:
                await self._bridge.send(request)
            except OSError:
                # The listening side finds out why, and ends all jobs.
                self._bridge.kill()

    async def _listen(self, bridge: _BridgeProcess) -> None:
        try:
            while True:
                reply = BridgeReply.FromString(await bridge.receive())
                match reply.WhichOneof("message"):
                    case "started":
                        if waiting := self._waiting.get(reply.started):
                            waiting.started()
                    case "done":
                        artifact = await bridge.receive() if reply.done.artifact_size else b""
                        self._done(reply.done, artifact)
                    case "status":
                        self._take_status(reply.status)
                    case _:
                        raise ConnectionError(reply.unavailable)
        except TimeoutError:
            self._end(f"the bridge to Ray was silent for {_SILENCE_SECONDS:g} s and is ended")
        except (OSError, DecodeError) as error:
            await bridge.until_ended()
            self._end(self._how_it_ended(bridge, error))

    def _how_it_ended(self, bridge: _BridgeProcess, error: Exception) -> str:
        if bridge.returncode == 0:
            return str(error)
        tail = bridge.tail
        if tail:
            _log.warning("the end of what the bridge to Ray wrote:\n%s", tail)
        return f"the bridge to Ray {describe_end(bridge.returncode)} ({error})"

    def _done(self, done: BridgeDone, artifact: bytes) -> None:
        waiting = self._waiting.get(done.id)
        if waiting is None or waiting.ending.done():
            return  # Cancelled meanwhile.
        reply = done.reply
        if reply.WhichOneof("result") == "failure":
            waiting.ending.set_result(Failed(reply.failure, done.retryable, reply.compile_seconds))
        else:
            compiled = Compiled(artifact, reply.compile_seconds, dict(reply.phases), done.worker, origin=done.origin)
            waiting.ending.set_result(compiled)

    def _take_status(self, status: PoolStatus) -> None:
        status.kind = self.kind
        status.cluster.address = self._config.arguments()[1]
        self._status = status

    def _end(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)
        for waiting in self._waiting.values():
            if not waiting.ending.done():
                waiting.ending.set_result(_unavailable(why))


def _unavailable(why: str) -> Failed:
    return failed(FailureKind.FAILURE_KIND_POOL_UNAVAILABLE, f"Ray cannot be used: {why}")
