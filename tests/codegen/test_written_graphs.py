"""Operators that nothing here can trace without a GPU, in graphs that are written down."""
# ruff: noqa: E402 - what needs a CUDA build is imported where there is one

import importlib.util

import pytest

pytestmark = [pytest.mark.codegen, pytest.mark.timeout(900)]

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs a CUDA build of PyTorch, with triton: make test-cuda has one", allow_module_level=True)

import torch
from support.gpu_travel import Sent, compiled, loaded, written
from torch._prims.rng_prims import graphsafe_run_with_rng_state

from inductord.compiler.adapter import generators


def drawing(index: int, seed: int) -> Sent:
    """Draws numbers from the generator that it is given, as activation checkpointing makes graphs do."""
    device = torch.device("cuda", index)
    graph = torch.fx.Graph()
    x, state = graph.placeholder("x"), graph.placeholder("fwd_rng_state_0")
    how = {"dtype": torch.float32, "device": device, "rng_state": state}
    drawn = graph.call_function(graphsafe_run_with_rng_state, (torch.ops.aten.rand.default, [8, 8]), how)
    graph.output((graph.call_function(torch.ops.aten.mul.Tensor, (drawn, x)),))
    generator = generators.standing_in(device).manual_seed(seed)
    return written(graph, lambda: [torch.empty(8, 8, device=device), generator], index)


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


def assembled(index: int, text: str) -> Sent:
    """Runs a text of assembly on each element."""
    graph = torch.fx.Graph()
    how = {"asm_str": text, "constraints": "=f,f", "dtype": torch.float32, "is_pure": True, "pack": 1}
    squared = graph.call_function(torch.ops.higher_order.inline_asm_elementwise, (graph.placeholder("x"),), how)
    graph.output((graph.call_function(torch.ops.aten.neg.default, (squared,)),))
    return written(graph, lambda: [torch.empty(8, 9, device=torch.device("cuda", index))], index)


@pytest.mark.skipif(
    not hasattr(torch.ops.higher_order, "inline_asm_elementwise"), reason="a part of torch from 2.13 on"
)
def test_assembly_is_in_the_key_and_in_the_kernel() -> None:
    text = "mul.f32 $0, $1, $1;"
    graph = assembled(1, text)
    assert assembled(0, text).key == graph.key != assembled(1, text.replace("mul", "add")).key
    assert text in loaded(compiled(graph), assembled(0, text), 0).source_code
