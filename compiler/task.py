"""What a worker does with one graph: load it, check its key, compile it, pack the artifact.

Runs in worker processes of every kind of pool. It never touches training state and never runs a collective.
"""

import contextlib
import time
import traceback
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from inductord.compiler import graph_key, payload
from inductord.compiler.adapter import (
    ambient,
    compiling,
    device,
    operators,
    placement,
    playing,
    toolchain,
    tracing,
    user_kernels,
    wire,
)
from inductord.v1.compiler_pb2 import CompileFailure, FailureKind, Toolchain
from inductord.v1.worker_pb2 import CompileReply

MAX_TRACEBACK = 64 * 1024


def warm() -> Toolchain:
    """Import and find out what the first compile would wait for, and say what this worker compiles with."""
    compiling.warm()
    return toolchain.describe("", placement.of_worker())


def compile_graph(key: str, graph: bytes, threads: int) -> CompileReply:
    """Compile a serialised ``GraphPayload``.

    Whatever the graph does becomes a ``CompileFailure``; only the death of the process is left to the pool.

    Args:
        key: what the artifact will be stored under.
        graph: the payload as the rank sent it.
        threads: how many compiler threads may run at once.
    """
    phases: dict[str, float] = {}
    start = time.perf_counter()
    reply = CompileReply()
    try:
        with operators.scope(), user_kernels.scope():
            reply.artifact = _compile(key, graph, threads, phases)
    except _Refused as refused:
        reply.failure.CopyFrom(refused.failure)
    except MemoryError as error:
        reply.failure.CopyFrom(_failure(FailureKind.FAILURE_KIND_OUT_OF_MEMORY, error))
    except Exception as error:  # noqa: BLE001 - what PyTorch raises for a graph is the result of this task
        reply.failure.CopyFrom(_failure(FailureKind.FAILURE_KIND_COMPILE_ERROR, error))
    reply.compile_seconds = time.perf_counter() - start
    for name, seconds in phases.items():
        reply.phases[name] = seconds
    return reply


class _Refused(Exception):
    def __init__(self, failure: CompileFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _compile(key: str, content: bytes, threads: int, phases: dict[str, float]) -> bytes:
    try:
        graph = payload.unpack_graph(content)
        _check_versions(key, graph.toolchain)
        if graph.accelerator is None:
            compiling.warm_for_cpu()
        with _device_of(graph):
            return _compile_there(key, graph, threads, phases)
    except (payload.PayloadError, device.NotDescribed) as error:
        raise _Refused(_failure(FailureKind.FAILURE_KIND_UNLOADABLE, error)) from error


def _device_of(graph: payload.Graph) -> contextlib.AbstractContextManager[None]:
    """The device that the graph is compiled for: played, or this worker's own when kernels are measured.

    Raises:
        device.NotDescribed: this worker has no such device.
    """
    if not graph.measures:
        return playing.described_by(graph.accelerator, graph.own_device)
    mine = device.own()
    if mine is None or graph.accelerator is None:
        raise device.NotDescribed("the compile measures on a device, and this worker has none")
    identity = device.describe(mine.type).identity
    if (identity, mine.index) != (graph.accelerator.identity, graph.own_device):
        raise device.NotDescribed(
            f"the compile measures on device {graph.own_device}, {graph.accelerator.identity}; this worker has device "
            f"{mine.index}, {identity}"
        )
    return contextlib.nullcontext()


def _compile_there(key: str, graph: payload.Graph, threads: int, phases: dict[str, float]) -> bytes:
    fake_mode = tracing.fresh_fake_mode()
    with _phase(phases, "load"):
        try:
            travelling = wire.loads(graph.content, fake_mode)
        except wire.NotLoadable as error:
            raise _Refused(_failure(FailureKind.FAILURE_KIND_UNLOADABLE, error)) from error
    call = travelling.call()
    with (
        ambient.applied(dict(graph.ambient)),
        compiling.configured(travelling.config, threads),
        tracing.restored(fake_mode, travelling.donated_inputs),
    ):
        with _phase(phases, "key"):
            identified = graph_key.identify(call)
            _check_key(key, graph, identified)
        with _phase(phases, "compile"):
            compile_one = compiling.compile_measured if graph.measures else compiling.compile_graph
            compiled = compile_one(call, identified.placement)
    with _phase(phases, "pack"):
        return payload.pack_artifact(payload.Artifact(key, compiled.content, compiled.libraries, compiled.relocations))


_ASKED_FIRST = ("torch", "python", "triton")
"""Fields of a toolchain that are told of every graph."""


def _check_versions(key: str, sent: Toolchain) -> None:
    """Another PyTorch may fail at any step of loading and compiling the graph, with an error that says nothing of the cause."""
    if differing := _differing(sent, toolchain.describe(""), _ASKED_FIRST):
        raise _mismatch(f"{key[:12]} was made by another toolchain ({'; '.join(differing)})")


def _check_key(key: str, graph: payload.Graph, own: graph_key.Identified) -> None:
    if own.key.digest == key:
        return
    differing = _differing(graph.toolchain, own.toolchain, [field.name for field in Toolchain.DESCRIPTOR.fields])
    parts = own.key.parts
    named = sorted(name for name in {*parts, *graph.key_parts} if parts.get(name) != graph.key_parts.get(name))
    if "inductor_config" not in named:  # then its words differ in what is left out of them
        named = [name for name in named if not name.startswith("config.")]
    if graph.key_parts and named:
        differing.append(f"parts that differ: {', '.join(named)}")
    why = "; ".join(differing) or "the graph, its options or the settings are not those that the key was made of"
    raise _mismatch(f"sent as {key[:12]}, the worker makes it {own.key.digest[:12]} ({why})")


def _differing(sent: Toolchain, own: Toolchain, fields: Iterable[str]) -> list[str]:
    return [
        f"{field}: sent {getattr(sent, field)!r}, here {getattr(own, field)!r}"
        for field in fields
        if getattr(sent, field) != getattr(own, field)
    ]


def _mismatch(message: str) -> _Refused:
    return _Refused(CompileFailure(kind=FailureKind.FAILURE_KIND_KEY_MISMATCH, message=message))


def _failure(kind: FailureKind, error: BaseException) -> CompileFailure:
    text = "".join(traceback.format_exception(error))
    first = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return CompileFailure(kind=kind, message=f"{type(error).__name__}: {first}", traceback=text[-MAX_TRACEBACK:])


@contextmanager
def _phase(phases: dict[str, float], name: str) -> Generator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        phases[name] = time.perf_counter() - start
