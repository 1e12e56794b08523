"""What runs in a Ray worker: the same compile task as in a process of the local pool.

A plain class that knows no ray. Requests and replies are bytes, which Ray hands over as they are; so the daemon unpickles
no reply.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from inductord.compiler.address import ensure_private_dir, temporary_dir
from inductord.worker.environment import worker_environment
from inductord.worker.process import CompileGraph, Warm, bounded
from inductord.worker.scratch import Scratch


class CompileActor:
    """One worker of the Ray pool.

    Args:
        warm, compile_graph: as for ``process.serve``.
        max_artifact_bytes: larger artifacts are replied to with a failure.
        scratch: where compiler caches go, None for this machine's temporary folder.
        environment: has the last word over the worker's own choice.
    """

    def __init__(
        self,
        warm: Warm,
        compile_graph: CompileGraph,
        max_artifact_bytes: int,
        scratch: str | None,
        environment: Mapping[str, str],
    ) -> None:
        self._compile_graph = compile_graph
        self._max_artifact_bytes = max_artifact_bytes
        parent = Path(scratch) if scratch else temporary_dir() / "ray-actors"
        ensure_private_dir(parent)
        # An actor that is killed leaves its folder to the next one to clear away.
        self._scratch = Scratch(parent)
        own = worker_environment(os.environ, self._scratch.for_worker(), environment)
        os.environ.clear()
        os.environ.update(own)
        self._toolchain = warm()

    def toolchain(self) -> bytes:
        """Under what this actor compiles, a serialised ``Toolchain``. Answers when the actor is ready."""
        return self._toolchain.SerializeToString()

    def compile(self, key: str, graph: bytes, threads: int) -> bytes:
        """A serialised ``CompileReply`` to a serialised ``GraphPayload`` that was sent under ``key``."""
        return bounded(self._compile_graph(key, graph, threads), self._max_artifact_bytes).SerializeToString()
