"""A GPU graph on its way where there is no GPU: sent by a rank, compiled by a worker, loaded by a rank, never launched."""

import dataclasses
import io
import json
import pickle
import subprocess
import sys
import tokenize
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from support import gpu_graphs
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from inductord.compiler import graph_key, payload, relocate, task
from inductord.compiler.adapter import compiling, kernels, loading, placement, playing, tracing, wire
from inductord.compiler.adapter.seam import GraphCall


@dataclasses.dataclass(frozen=True)
class Sent:
    """A graph as a rank sends it."""

    call: GraphCall
    identified: graph_key.Identified
    payload: bytes

    @property
    def key(self) -> str:
        return self.identified.key.digest


def sent(call: GraphCall, index: int, capability: int = 90) -> Sent:
    """The graph, moved to ``cuda:index``, from a rank whose own device that is."""
    with playing.described_by(gpu_graphs.accelerator(capability), index):
        return packed(gpu_graphs.moved(call, index))


def written(graph: torch.fx.Graph, make_inputs: Callable[[], list[Any]], index: int) -> Sent:
    """A graph that was written down for ``cuda:index``, from a rank whose own device that is. ``make_inputs`` is called where
    there is such a device and tensors are fake."""
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    with playing.described_by(gpu_graphs.accelerator(90), index):
        mode = tracing.fresh_fake_mode()
        with mode:
            inputs = make_inputs()
        FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*inputs)
        with tracing.restored(mode, None):
            return packed(GraphCall(gm, inputs, (), gpu_graphs.compile_options(())))


def packed(call: GraphCall, measures: bool = False) -> Sent:
    identified = graph_key.identify(call)
    where = identified.placement
    graph = payload.Graph(
        identified.toolchain, call.kind, identified.ambient, wire.dumps(call, where), where.accelerator, where.travels_as,
        identified.key.parts, measures,
    )  # fmt: skip
    return Sent(call, identified, payload.pack_graph(graph))


def compiled(graph: Sent, threads: int = 1) -> payload.Artifact:
    """What a worker makes of it."""
    reply = task.compile_graph(graph.key, graph.payload, threads)
    assert not reply.failure.message, f"{reply.failure.message}\n{reply.failure.traceback}"
    return payload.unpack_artifact(reply.artifact, graph.key)


_ALONE = Path(__file__).parent.parent / "workers" / "alone.py"


def compiled_alone(folder: Path, graphs: Sequence[Sent], threads: int = 1) -> list[payload.Artifact]:
    """What a worker that does nothing before makes of them, one after the other. ``folder``: a new one."""
    folder.mkdir()
    for number, graph in enumerate(graphs):
        (folder / f"{number}-{graph.key}").write_bytes(graph.payload)
    worker = subprocess.run([sys.executable, _ALONE, folder, str(threads)], capture_output=True, text=True)
    assert json.loads(worker.stdout.splitlines()[-1]) == [""] * len(graphs), worker.stderr
    return [payload.unpack_artifact((folder / graph.key).read_bytes(), graph.key) for graph in graphs]


def loaded(artifact: payload.Artifact, graph: Sent, index: int) -> Any:
    """What a rank on ``cuda:index`` loads, without launching it."""
    one_thread = torch._inductor.config.patch(compile_threads=1)
    with playing.described_by(gpu_graphs.accelerator(90), index), kernels.compiled_only(), one_thread:
        mode = next(value.fake_mode for value in graph.call.example_inputs if hasattr(value, "fake_mode"))
        with tracing.restored(mode, None):
            return loading.load(artifact, graph.call, graph.identified.placement)


def without_comments(source: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL)]


def source_for(call: GraphCall, index: int) -> tuple[str, relocate.Table]:
    """The wrapper that Inductor generates for ``cuda:index`` itself, and where it names that device."""
    with playing.described_by(gpu_graphs.accelerator(90), index):
        moved = gpu_graphs.moved(call, index)
        where = dataclasses.replace(placement.of(moved), travels_as=index)  # as if it meant this very device
        graph = payload.Graph(
            graph_key.identify(moved).toolchain, moved.kind, {}, wire.dumps(moved, where), where.accelerator, index
        )
    travelling = payload.unpack_graph(payload.pack_graph(graph))
    with playing.described_by(travelling.accelerator, index):
        mode = tracing.fresh_fake_mode()
        back = wire.loads(travelling.content, mode)
        with compiling.configured(back.config, 1), tracing.restored(mode, back.donated_inputs):
            result = compiling.compile_graph(back.call(), where)
    assert result.relocations is not None
    return pickle.loads(result.content).source_code, result.relocations
