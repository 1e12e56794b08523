"""The registry as an actor of a Ray cluster: named, detached, started again by Ray when it dies.

One for each release of inductord, on the head node, made by the first daemon that looks for it. It holds no CPU. What it does
is ``registry`` and ``ray_crews``; here is only what makes an actor of them.
"""

import asyncio
import logging
import os
import platform
import time
from collections.abc import Sequence
from typing import Any

import ray

from inductord import __version__
from inductord.compiler.versions import KEY_FORMAT, PROTOCOL
from inductord.worker.ray_crews import CrewsConfig, RayCrews
from inductord.worker.registry import Registry, RegistryLimits
from inductord.worker.registry_messages import Batch, Request, SessionUnknown
from inductord.worker.singleflight import Limits

_log = logging.getLogger("inductord.registry")

NAMESPACE = "inductord"
NAME = f"registry-{__version__}-{PROTOCOL}-{KEY_FORMAT}"
"""Daemons of different releases do not share: keys and messages may differ."""

# Ray gives this resource to the head node alone. A worker node with the registry on it would never be let go.
_ON_HEAD = {"node:__internal_head__": 0.001}
_UPKEEP_SECONDS = 2.0
_MOST_CALLS = 10_000


class RegistryActor:
    """What daemons' bridges call. Not ``submit`` nor ``poll`` raise for an unknown session: False and None say so."""

    def __init__(self, config: CrewsConfig, limits: Limits) -> None:
        self._crews = RayCrews(config)
        self._registry = Registry(self._crews, RegistryLimits(flights=limits), time.monotonic, ray.put)
        self._upkeep: list[asyncio.Task[None]] = []

    async def hello(self, session: str) -> tuple[str, dict[str, str]]:
        """The registry's incarnation, and what it runs on."""
        if not self._upkeep:
            self._upkeep = [asyncio.create_task(self._expire()), asyncio.create_task(self._look_for_gpus())]
        return self._registry.hello(session), versions()

    async def submit(self, session: str, requests: Sequence[Request]) -> bool:
        """See ``Registry.submit``."""
        try:
            self._registry.submit(session, requests)
        except SessionUnknown:
            return False
        return True

    async def poll(self, session: str, have: int, timeout: float) -> Batch | None:
        """See ``Registry.poll``."""
        try:
            return await self._registry.poll(session, have, timeout)
        except SessionUnknown:
            return None

    async def pid(self) -> int:
        """Of its process, for benchmarks and for whoever looks after the cluster."""
        return os.getpid()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_UPKEEP_SECONDS)
            self._registry.expire()

    async def _look_for_gpus(self) -> None:
        while True:
            try:
                # It asks the head and may wait.
                resources = await asyncio.to_thread(ray.available_resources)
            except ray.exceptions.RayError as error:
                _log.warning("the cluster does not say what is free: %s", error)
                resources = {}
            self._crews.free_gpus(resources.get("GPU", 0.0))
            await asyncio.sleep(_UPKEEP_SECONDS)


def versions() -> dict[str, str]:
    """What has to fit between a daemon and the cluster."""
    return {
        "inductord": __version__,
        "protocol": str(PROTOCOL),
        "key format": str(KEY_FORMAT),
        "ray": ray.__version__,
        "python": platform.python_version(),
    }


def find_or_make(config: CrewsConfig, limits: Limits) -> Any:
    """A handle of the cluster's registry. Blocks. ``config`` and ``limits`` hold if this call makes it."""
    return (
        ray.remote(RegistryActor)
        .options(
            name=NAME,
            namespace=NAMESPACE,
            get_if_exists=True,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_MOST_CALLS,
            num_cpus=0,
            resources=_ON_HEAD,
            runtime_env={"env_vars": {"INDUCTORD": "0", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}},
        )
        .remote(config, limits)
    )
