"""``python -m inductord.worker.ray_bridge``: the process that has Ray, so that the daemon has not. Started by ``ray_pool``.

It connects, finds or makes the cluster's registry, and passes the daemon's jobs on. Ray unpickles here and may end this
process whenever it likes; the daemon notices, goes on with the local pool, and starts another. It ends with its connection
to the daemon.
"""

import argparse
import asyncio
import functools
import json
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from inductord.v1.bridge_pb2 import BridgeDone, BridgeJob, BridgeReady, BridgeReply, BridgeRequest
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker import framing
from inductord.worker.limits import this_machine
from inductord.worker.pool import Compiled, Job, Outcome, PoolUnavailable, Priority
from inductord.worker.ray_session import RaySession
from inductord.worker.registry_client import RegistryClient, Unreachable
from inductord.worker.singleflight import Limits

_STATUS_SECONDS = 1.0
# A Ray that does not let go of this process is left by force.
_LEAVE_SECONDS = 20.0


class Bridge:
    """Serves one daemon on ``sock``, which is non-blocking."""

    def __init__(self, sock: socket.socket, client: RegistryClient) -> None:
        self._sock = sock
        self._client = client
        self._sending = asyncio.Lock()
        self._jobs: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until the daemon or the cluster is gone."""
        await self._client.start()
        await self._send(BridgeReply(ready=BridgeReady(status=self._client.status())))
        listening = asyncio.create_task(self._listen())
        ticking = asyncio.create_task(self._tell_status())
        ends: set[asyncio.Future[Any]] = {listening, ticking, self._client.lost}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self._client.lost.done():
            # The jobs have heard of it and tell the daemon.
            await asyncio.gather(*self._jobs.values(), return_exceptions=True)
            await self._send(BridgeReply(unavailable=self._client.lost.result()))
        for task in (listening, ticking, *self._jobs.values()):
            task.cancel()

    async def _listen(self) -> None:
        while (frame := await framing.receive_frame(self._sock)) is not None:
            request = BridgeRequest.FromString(bytes(frame))
            match request.WhichOneof("message"):
                case "job":
                    job = asyncio.create_task(self._run(request.job))
                    self._jobs[request.job.id] = job
                    job.add_done_callback(functools.partial(self._forget, request.job.id))
                case "cancel":
                    if (job_ := self._jobs.get(request.cancel)) is not None:
                        job_.cancel()
                case "promote":
                    self._client.promote(request.promote)

    def _forget(self, number: int, job: "asyncio.Task[None]") -> None:
        del self._jobs[number]
        if not job.cancelled() and (error := job.exception()):
            # The daemon waits for an answer that will not come: better that it sees this process end.
            asyncio.get_running_loop().call_exception_handler({"message": "a job failed", "exception": error})
            os._exit(1)

    async def _run(self, wanted: BridgeJob) -> None:
        started: list[asyncio.Task[None]] = []
        outcome = await self._client.compile(
            Job(
                key=wanted.key,
                graph=wanted.graph,
                toolchain=wanted.toolchain,
                priority=Priority.SPECULATIVE if wanted.speculative else Priority.WAITED_FOR,
                needs_device=wanted.needs_device,
                tenant=wanted.tenant,
                traceparent=wanted.traceparent,
            ),
            lambda: started.append(asyncio.create_task(self._send(BridgeReply(started=wanted.id)))),
        )
        await asyncio.gather(*started)
        await self._answer(wanted.id, outcome)

    async def _answer(self, number: int, outcome: Outcome) -> None:
        if not isinstance(outcome, Compiled):
            reply = CompileReply(failure=outcome.failure, compile_seconds=outcome.compile_seconds)
            await self._send(BridgeReply(done=BridgeDone(id=number, reply=reply, retryable=outcome.retryable)))
            return
        assert outcome.place is not None
        data: Any = outcome.place.at
        reply = CompileReply(compile_seconds=outcome.compile_seconds, phases=outcome.phases)
        done = BridgeDone(id=number, reply=reply, artifact_size=len(data), origin=outcome.origin, worker=outcome.worker)
        await self._send(BridgeReply(done=done), data)

    async def _send(self, reply: BridgeReply, data: memoryview | None = None) -> None:
        async with self._sending:
            await framing.send_frame(self._sock, reply.SerializeToString())
            if data is not None:
                await framing.send_frame(self._sock, data)

    async def _tell_status(self) -> None:
        while True:
            await asyncio.sleep(_STATUS_SECONDS)
            await self._send(BridgeReply(status=self._client.status()))


async def _serve(sock: socket.socket, find: Callable[[], Any]) -> None:
    from inductord.worker.ray_transport import RayTransport

    sock.setblocking(False)
    client = RegistryClient(RayTransport(find))
    try:
        await Bridge(sock, client).serve()
    finally:
        await client.close()


def _leave_when_closed(sock: socket.socket) -> None:
    """End this process for certain some time after the daemon has gone, whatever Ray is doing."""
    hangup = select.poll()
    hangup.register(sock, select.POLLRDHUP)
    hangup.poll()
    threading.Event().wait(_LEAVE_SECONDS)
    os._exit(1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Be a bridge."""
    parser = argparse.ArgumentParser(
        description="The process that speaks with Ray. The inductord daemon starts it by itself."
    )
    parser.add_argument("--fd", type=int, required=True, help="inherited socket to speak with the daemon")
    parser.add_argument("--address", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--crews", type=json.loads, required=True, help="fields of CrewsConfig, as JSON")
    parser.add_argument("--limits", type=json.loads, required=True, help="fields of singleflight.Limits, as JSON")
    options = parser.parse_args(arguments)
    with socket.socket(fileno=options.fd) as sock:
        sock.set_inheritable(False)
        threading.Thread(target=_leave_when_closed, args=(sock,), daemon=True).start()
        session: RaySession | None = None
        try:
            # Before any event loop: Ray's own processes end with the thread that started them.
            session = RaySession(options.address, this_machine(), options.scratch)
            from inductord.worker.ray_crews import CrewsConfig
            from inductord.worker.ray_registry import find_or_make

            find = functools.partial(find_or_make, CrewsConfig(**options.crews), Limits(**options.limits))
            asyncio.run(_serve(sock, find))
        except (PoolUnavailable, Unreachable) as error:
            sock.setblocking(True)
            framing.write_frame(sock, BridgeReply(unavailable=str(error)).SerializeToString())
        finally:
            if session is not None:
                session.close()


if __name__ == "__main__":
    main()
