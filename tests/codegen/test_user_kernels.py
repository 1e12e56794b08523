"""Graphs that call Triton kernels of the user: in the key, compiled by a worker, moved to a rank's device."""
# ruff: noqa: E402 - what needs a CUDA build is imported where there is one

import copy
import dataclasses
import importlib.util
import itertools
import pickle
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.codegen, pytest.mark.timeout(900)]

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs a CUDA build of PyTorch, with triton: make test-cuda has one", allow_module_level=True)

import torch
import triton
from support import gpu_kernels, gpu_models
from support.gpu_travel import compiled, compiled_alone, loaded, sent, source_for, without_comments
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

from inductord.compiler import payload, relocate
from inductord.compiler.adapter import bypass, tracing, user_kernels
from inductord.compiler.adapter.seam import GraphCall
from inductord.compiler.reasons import Fallback


def test_a_worker_compiles_them_and_a_rank_of_any_device_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = gpu_kernels.graph()
    known = dict(kernel_side_table.id_to_kernel)
    graphs = {index: sent(call, index) for index in (0, 1, 5)}
    assert len({graph.key for graph in graphs.values()}) == 1
    artifact = compiled(graphs[1])
    assert kernel_side_table.id_to_kernel == known  # what a worker had to know it forgets
    bundle = pickle.loads(artifact.content)._triton_bundle
    binaries = [file.filename for kernel in bundle.kernel_artifacts for file in kernel.artifacts]
    assert binaries.count("scale.cubin") == 2  # by two sets of constants
    assert binaries.count("accumulate.cubin") == 2  # by two configurations

    for index in (1, 5):  # this process, which was the worker, remembers the kernels of device 0
        asked: list[tuple[str, bool]] = []
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / str(index)))
        monkeypatch.setattr(
            triton.knobs.compilation,
            "listener",
            lambda *, src, cache_hit, asked=asked, **_: asked.append((src.name, cache_hit)),
        )
        ready = loaded(artifact, graphs[index], index)
        assert set(ready.device_idxs) == {index}
        assert sorted(asked) == [("accumulate", True), ("accumulate", True), ("scale", True), ("scale", True)]


def test_workers_file_them_under_one_name_whatever_they_did_before(tmp_path: Path) -> None:
    """Triton finds a binary by a name that tells the version of the assembler, among others."""
    if not Path(torch.__file__).with_name("bin").joinpath("ptxas").exists():
        pytest.skip(f"torch {torch.__version__} brings no ptxas, so Triton's own is the only one")
    graph = sent(gpu_kernels.graph(), 0)
    busy = compiled_alone(tmp_path / "busy", [sent(gpu_models.graphs("elementwise")[0], 0), graph])[1]
    fresh = compiled_alone(tmp_path / "fresh", [graph], threads=2)[0]

    def names(artifact: payload.Artifact) -> set[str]:
        bundle = pickle.loads(artifact.content)._triton_bundle
        files = [(kernel.kernel_hash, file.filename) for kernel in bundle.kernel_artifacts for file in kernel.artifacts]
        return {name for name, file in files if file in {"scale.cubin", "accumulate.cubin"}}

    assert len(names(busy)) == 4
    assert names(busy) == names(fresh)


def test_moved_code_is_the_code_that_is_generated_for_that_device() -> None:
    source, table = source_for(gpu_kernels.graph(), 0)
    expected, _ = source_for(gpu_kernels.graph(), 3)
    moved, _ = relocate.apply(source, table, 0, 3)
    assert "def shifted" in moved
    assert without_comments(moved) == without_comments(expected)


def elsewhere(call: GraphCall) -> GraphCall:
    """The graph as another process has it, whose table of kernels has others before these."""
    moved = GraphCall(copy.deepcopy(call.gm), call.example_inputs, call.inputs_to_check, call.options)
    for node in moved.gm.graph.nodes:
        if "kernel_idx" in node.kwargs:
            places: Any = node.kwargs["kernel_idx"], node.kwargs["constant_args_idx"]
            kernel_side_table.id_to_kernel[places[0] + 100] = kernel_side_table.id_to_kernel[places[0]]
            kernel_side_table.constant_args[places[1] + 100] = kernel_side_table.constant_args[places[1]]
            node.kwargs = {**node.kwargs, "kernel_idx": places[0] + 100, "constant_args_idx": places[1] + 100}
    moved.gm.recompile()
    return moved


def test_the_key_is_that_of_the_text_wherever_it_stands(tmp_path: Path) -> None:
    """Scripts like ``user_kernels.py``, each with one difference."""
    counter = itertools.count()
    text = gpu_kernels.SCRIPT.read_text()

    def key_with(before: str, after: str) -> str:
        path = tmp_path / f"kernels_{next(counter)}.py"
        assert before in text
        path.write_text(text.replace(before, after))
        return sent(gpu_kernels.graph_of(gpu_kernels.imported(path)), 0).key

    key = sent(gpu_kernels.graph(), 0).key
    assert sent(elsewhere(gpu_kernels.graph()), 0).key == key
    assert key_with("OFFSET = tl", "# as before, further down\n\nOFFSET = tl") == key
    differing = {
        "a function that it calls": key_with("x * 2 + by", "x * 4 + by"),
        "a global that it reads": key_with("tl.constexpr(3)", "tl.constexpr(5)"),
        "its own text": key_with("tl.maximum(x, 0.0)", "tl.maximum(x, 1.0)"),
        "a constant": key_with('activation: str = "relu"', 'activation: str = "none"'),
        "a number": key_with("0.5", "0.75"),
        "a configuration": key_with("num_warps=2", "num_warps=8"),
        "what tuning puts back": key_with('restore_value=["x_ptr"],', ""),
    }
    assert len({key, *differing.values()}) == 1 + len(differing), differing


def test_what_cannot_be_told_in_words_stays_with_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    call = gpu_kernels.graph()
    node = next(node for node in call.gm.graph.nodes if "kernel_idx" in node.kwargs)
    constants = kernel_side_table.constant_args[node.kwargs["constant_args_idx"]]
    with tracing.restored(call.example_inputs[0].fake_mode, None):
        bypass.check(call)
        monkeypatch.setitem(constants, "ACTIVATION", gpu_kernels.kernels().shifted)
        with pytest.raises(bypass.Bypass, match="ACTIVATION of the Triton kernel scale is a JITFunction") as stays:
            bypass.check(dataclasses.replace(call))
    assert stays.value.reason is Fallback.USER_TRITON_KERNEL
    monkeypatch.undo()
    autotuned = next(kernel for kernel in kernel_side_table.id_to_kernel.values() if hasattr(kernel, "configs"))
    monkeypatch.setattr(autotuned.configs[0], "pre_hook", print)
    with pytest.raises(user_kernels.NotDescribable, match="accumulate has a hook"):
        user_kernels.describe(call.gm)
