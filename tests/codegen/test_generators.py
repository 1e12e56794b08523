"""Graphs that take generators of random numbers, as activation checkpointing makes them for what draws numbers on a GPU."""
# ruff: noqa: E402 - what needs a CUDA build is imported where there is one

import importlib.util

import pytest

pytestmark = [pytest.mark.codegen, pytest.mark.timeout(900)]

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs a CUDA build of PyTorch, with triton: make test-cuda has one", allow_module_level=True)

import torch
from support import gpu_graphs
from support.gpu_travel import Sent, compiled, loaded, packed
from torch._prims.rng_prims import graphsafe_run_with_rng_state
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from inductord.compiler.adapter import generators, playing, tracing
from inductord.compiler.adapter.seam import GraphCall


def drawing(index: int, seed: int) -> Sent:
    """A graph that draws numbers from the generator that it is given, from a rank on ``cuda:index``."""
    device = torch.device("cuda", index)
    generator = generators.standing_in(device).manual_seed(seed)
    graph = torch.fx.Graph()
    x, state = graph.placeholder("x"), graph.placeholder("fwd_rng_state_0")
    how = {"dtype": torch.float32, "device": device, "rng_state": state}
    drawn = graph.call_function(graphsafe_run_with_rng_state, (torch.ops.aten.rand.default, [8, 8]), how)
    product = graph.call_function(torch.ops.aten.mul.Tensor, (drawn, x))
    graph.output((product,))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    with playing.described_by(gpu_graphs.accelerator(90), index):
        mode = tracing.fresh_fake_mode()
        with mode:
            inputs = [torch.empty(8, 8, device=device), generator]
        FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*inputs)
        with tracing.restored(mode, None):
            return packed(GraphCall(gm, inputs, (), gpu_graphs.compile_options(())))


def test_a_generator_travels_as_its_device() -> None:
    graph = drawing(3, seed=1)
    assert {drawing(0, seed=2).key, drawing(3, seed=2).key} == {graph.key}
    artifact = compiled(graph)
    for index in (0, 3):
        source = loaded(artifact, drawing(index, seed=3), index).source_code
        assert "rng_state=fwd_rng_state_0" in source
        assert f"_DeviceGuard({index})" in source


def test_a_generator_of_another_device_is_another_input() -> None:
    pickled = {generators.reduced(generators.standing_in(torch.device(name))) for name in ("cpu", "cuda:0", "cuda:1")}
    assert len(pickled) == 3
    assert generators.reduced(torch.Generator()) == generators.reduced(generators.standing_in(torch.device("cpu")))
