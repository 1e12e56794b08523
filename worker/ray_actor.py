"""What runs in a Ray worker: a local pool of one worker process, as on a node.

So a compile on Ray has the limits, the environment and the account of failures that it has at home, and an actor outlives
what a graph does to its process. A plain class that knows no ray.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from inductord.compiler.address import ensure_private_dir, temporary_dir
from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker.local_pool import LocalPool, LocalPoolConfig
from inductord.worker.pool import Compiled, Job, PoolUnavailable
from inductord.worker.ray_blob import Blob

_FOREVER = 1e9
_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ActorConfig:
    """What one actor is told. ``command``: how its worker process is started, None for this Python. ``cpus``: what a compile
    may use. ``needs_device``: it sees the device that Ray gave it.
    """

    max_artifact_bytes: int
    compile_timeout: float
    worker_memory_bytes: int | None
    command: Sequence[str] | None
    environment: Mapping[str, str]
    cpus: int
    needs_device: bool


class CompileActor:
    """One worker of the cluster. ``ready`` comes first. All messages are bytes."""

    def __init__(self, config: ActorConfig) -> None:
        scratch = temporary_dir() / "ray-actors"
        ensure_private_dir(scratch)
        environment = dict(config.environment)
        if config.needs_device:
            environment[_DEVICES] = os.environ.get(_DEVICES, "")
        self._pool = LocalPool(
            LocalPoolConfig(
                scratch=Path(scratch),
                max_artifact_bytes=config.max_artifact_bytes,
                max_workers=1,
                # The cluster decides when an actor leaves.
                idle_seconds=_FOREVER,
                compile_timeout=config.compile_timeout,
                worker_memory_bytes=config.worker_memory_bytes,
                command=config.command or (sys.executable, "-m", "inductord.worker"),
                environment=environment,
                cpus=config.cpus,
            )
        )

    async def placed(self) -> None:
        """Answers as soon as the actor has a place in the cluster."""

    async def ready(self) -> tuple[bytes, str]:
        """Start the worker process. A serialised ``Toolchain`` once it is ready, or why it cannot be started."""
        try:
            await self._pool.start()
            return (await self._pool.toolchain()).SerializeToString(), ""
        except PoolUnavailable as error:
            return b"", str(error)

    async def compile(self, key: str, graph: bytes, traceparent: str) -> tuple[bytes, bool, int, Blob]:
        """A serialised ``CompileReply`` without its artifact, whether another try may do better, the size of the artifact,
        and the artifact itself.
        """
        outcome = await self._pool.compile(
            Job(key=key, graph=graph, toolchain=Toolchain(), traceparent=traceparent), lambda: None
        )
        if isinstance(outcome, Compiled):
            reply = CompileReply(compile_seconds=outcome.compile_seconds, phases=outcome.phases)
            return reply.SerializeToString(), False, len(outcome.artifact), Blob(outcome.artifact)
        reply = CompileReply(failure=outcome.failure, compile_seconds=outcome.compile_seconds)
        return reply.SerializeToString(), outcome.retryable, 0, Blob(b"")
