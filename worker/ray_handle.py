"""One Ray actor as the daemon holds it. Only ``ray_pool`` imports this, when Ray was asked for."""

import asyncio
from concurrent.futures import Executor
from typing import Any

import ray
from google.protobuf.message import DecodeError

from inductord.v1.worker_pb2 import CompileReply

_KILL_SECONDS = 10.0
_MOST_DETAILS = 16 * 1024


class ActorLost(Exception):
    """The actor died or cannot be reached. ``details``: all that Ray has to say of it."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class RayWorker:
    """A compile actor. ``until_ready`` comes first, ``close`` last.

    Args:
        actor: a handle of ``ray_actor.CompileActor``.
        calls: where blocking calls of Ray run.
    """

    def __init__(self, actor: Any, calls: Executor) -> None:
        self._actor = actor
        self._calls = calls
        self._kill: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def name(self) -> str:
        """For the log."""
        return f"actor {self._actor._actor_id.hex()[:12]}"

    @property
    def alive(self) -> bool:
        """False once its end is known."""
        return not self._ended.done()

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when its end is known. Ray does not tell of an idle actor's death; ``until_ready`` finds it."""
        return self._ended

    async def until_ready(self) -> None:
        """Wait until it answers.

        Raises:
            ActorLost: it cannot.
        """
        await self._call(self._actor.toolchain)

    async def run(self, key: str, graph: bytes, threads: int) -> CompileReply:
        """Compile a serialised ``GraphPayload`` that was sent under ``key``.

        Raises:
            ActorLost: it ended before it replied.
        """
        reply = await self._call(self._actor.compile, key, graph, threads)
        try:
            return CompileReply.FromString(reply)
        except DecodeError as error:
            raise ActorLost(f"the actor's reply cannot be read: {error}") from error

    async def _call(self, method: Any, *arguments: str | bytes | int) -> bytes:
        try:
            reply = await method.remote(*arguments)
        except (ray.exceptions.RayError, ConnectionError) as error:
            self._mark_ended()
            cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
            first_line = str(cause).partition("\n")[0]
            raise ActorLost(f"{type(cause).__name__}: {first_line}", str(error)[:_MOST_DETAILS]) from error
        if not isinstance(reply, bytes):
            raise ActorLost(f"the actor replied with {type(reply).__name__}")
        return reply

    def terminate(self) -> None:
        """An actor has nothing to put in order."""
        self.kill()

    def kill(self) -> None:
        """End its process. Does not wait."""
        if self._kill is None:
            self._kill = asyncio.get_running_loop().run_in_executor(self._calls, ray.kill, self._actor)
            self._kill.add_done_callback(lambda _: self._mark_ended())

    async def close(self) -> None:
        """Kill it, if it lives."""
        self.kill()
        assert self._kill is not None
        await asyncio.wait({self._kill}, timeout=_KILL_SECONDS)

    def _mark_ended(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
