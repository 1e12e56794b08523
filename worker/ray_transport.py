"""The way from a bridge to the registry, through Ray: as a driver on a node of the cluster, or through Ray Client.

Each call is bounded. Calls of Ray that may block run in threads; a thread that Ray never gives back is left behind, and ends
with the bridge.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

from inductord.worker.ray_registry import versions
from inductord.worker.registry_client import ArtifactGone, Unreachable
from inductord.worker.registry_messages import Batch, Produced, Request, SessionUnknown

_ANSWER_SECONDS = 10.0
_HELLO_SECONDS = 30.0
_READ_SECONDS = 30.0
_SLOWEST_BYTES_A_SECOND = 1e6
_LONGEST_READ_SECONDS = 120.0
_THREADS = 8

_GONE = (
    ray.exceptions.ObjectLostError,
    ray.exceptions.ObjectFetchTimedOutError,
    ray.exceptions.OwnerDiedError,
    ray.exceptions.RayActorError,
)


class RayTransport:
    """Implements ``registry_client.Transport``.

    Args:
        find: a blocking call that gives the registry's handle.
    """

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._registry: Any = None
        self._threads = ThreadPoolExecutor(_THREADS, "ray")

    async def hello(self, session: str) -> str:
        """See ``Transport.hello``. Raises ``Unreachable`` for a registry of other versions as well."""
        self._registry = await self._bounded(self._in_thread(self._find), _HELLO_SECONDS)
        incarnation, theirs = await self._call("hello", session, seconds=_HELLO_SECONDS)
        ours = versions()
        # A name that one side lacks is one that an older release does not say. Of Python Ray itself takes care.
        differing = [name for name in ours if name != "python" and theirs.get(name) != ours[name]]
        if differing:
            raise Unreachable(
                "versions differ: "
                + ", ".join(f"the cluster has {name} {theirs.get(name)}, this node {ours[name]}" for name in differing)
                + ". Install the same on both"
            )
        return str(incarnation)

    async def submit(self, session: str, requests: Sequence[Request]) -> None:
        """See ``Transport.submit``."""
        weight = sum(len(getattr(request, "graph", b"")) for request in requests)
        if not await self._call("submit", session, list(requests), seconds=_seconds_for(weight)):
            raise SessionUnknown(session)

    async def poll(self, session: str, have: int, timeout: float) -> Batch:
        """See ``Transport.poll``."""
        batch: Batch | None = await self._call("poll", session, have, timeout, seconds=timeout + _ANSWER_SECONDS)
        if batch is None:
            raise SessionUnknown(session)
        return batch

    async def read(self, produced: Produced) -> memoryview:
        """See ``Transport.read``. On a node that has the artifact this is the object store's own memory."""
        reference: Any = produced.place.at
        try:
            blob = await self._bounded(asyncio.wrap_future(reference.future()), _seconds_for(produced.place.size))
        except _GONE as error:
            raise ArtifactGone(_first_line(error)) from error
        view: memoryview = blob.data
        return view

    async def _call(self, name: str, *arguments: object, seconds: float) -> Any:
        reference = await self._bounded(
            self._in_thread(lambda: getattr(self._registry, name).remote(*arguments)), _ANSWER_SECONDS
        )
        try:
            return await self._bounded(asyncio.wrap_future(reference.future()), seconds)
        except _GONE as error:
            raise Unreachable(_first_line(error)) from error

    def _in_thread(self, call: Callable[[], Any]) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _bounded(self, answer: "asyncio.Future[Any]", seconds: float) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as error:
            raise Unreachable(f"no answer within {seconds:g} s") from error
        except _GONE:
            raise
        except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
            # RuntimeError and ValueError are what Ray Client raises for a connection that broke.
            raise Unreachable(f"{type(error).__name__}: {_first_line(error)}") from error


def _seconds_for(size: int) -> float:
    return min(_LONGEST_READ_SECONDS, _READ_SECONDS + size / _SLOWEST_BYTES_A_SECOND)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
