"""One Ray actor as the registry holds it."""

import asyncio
from typing import Any

import ray

from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker.pool import Compiled, Failed, Outcome, Place

_MOST_DETAILS = 16 * 1024


class ActorLost(Exception):
    """The actor died or cannot be reached. ``details``: all that Ray has to say of it."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class RayWorker:
    """A compile actor: ``placed``, then ``ready``, then any number of jobs, then ``close``.

    Args:
        actor: a handle of ``ray_actor.CompileActor``.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor
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
        """Done when its end is known. Ray does not tell of an idle actor's death; ``placed`` finds it."""
        return self._ended

    async def placed(self) -> None:
        """Wait until it answers at all.

        Raises:
            ActorLost: it cannot.
        """
        await self._result(self._actor.placed.remote())

    async def ready(self) -> Toolchain:
        """Wait until it can take a job.

        Raises:
            ActorLost: it cannot, or its worker process does not start.
        """
        toolchain, trouble = await self._result(self._actor.ready.remote())
        if trouble:
            raise ActorLost(trouble)
        return Toolchain.FromString(toolchain)

    async def run(self, key: str, graph: object, traceparent: str) -> Outcome:
        """Compile a graph of the object store. The artifact stays there, too.

        Raises:
            ActorLost: it ended before it replied, or could not get the graph.
        """
        reply, retryable, size, artifact = self._actor.compile.options(num_returns=4).remote(key, graph, traceparent)
        ended = CompileReply.FromString(await self._result(reply))
        if ended.WhichOneof("result") == "failure":
            return Failed(ended.failure, retryable=await self._result(retryable), compile_seconds=ended.compile_seconds)
        place = Place(artifact, await self._result(size))
        return Compiled(b"", ended.compile_seconds, dict(ended.phases), place=place)

    async def _result(self, reference: Any) -> Any:
        try:
            return await reference
        except (ray.exceptions.RayError, ConnectionError) as error:
            self._mark_ended()
            cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
            first_line = str(cause).partition("\n")[0]
            raise ActorLost(f"{type(cause).__name__}: {first_line}", str(error)[:_MOST_DETAILS]) from error

    def terminate(self) -> None:
        """An actor has nothing to put in order: its worker process ends with it."""
        self.kill()

    def kill(self) -> None:
        """End its process. Does not wait."""
        if self.alive:
            ray.kill(self._actor)
            self._mark_ended()

    async def close(self) -> None:
        """Kill it, if it lives."""
        self.kill()

    def _mark_ended(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
