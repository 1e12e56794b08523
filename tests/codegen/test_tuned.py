"""Configurations of kernels that one rank found while it measured, as the others launch them."""
# ruff: noqa: E402 - what needs a CUDA build is imported where there is one

import copy
import importlib.util
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [pytest.mark.codegen, pytest.mark.timeout(900)]

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs a CUDA build of PyTorch, with triton: make test-cuda has one", allow_module_level=True)

import torch
from support import gpu_graphs, gpu_models
from support.gpu_travel import compiled, sent
from torch._inductor.codecache import PyCodeCache
from torch._inductor.runtime.static_triton_launcher import StaticallyLaunchedCudaKernel
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from inductord.compiler.adapter import kernels, playing, tuned
from inductord.v1.tuning_pb2 import TuningRecord


def _kernels(source: str) -> list[Any]:
    """The kernels of generated code, compiled."""
    one_thread = torch._inductor.config.patch(compile_threads=1)
    with playing.described_by(gpu_graphs.accelerator(90), 0), kernels.compiled_only(), one_thread:
        module = PyCodeCache.load(source)
    return [value for value in vars(module).values() if isinstance(value, CachingAutotuner)]


@pytest.mark.parametrize("long", [False, True], ids=["short name", "long name"])
def test_a_rank_launches_what_another_found_from_a_whole_binary(long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pickle.loads(compiled(sent(gpu_models.graphs("llama")[-1], 0)).content).source_code
    kernel = next(found for found in _kernels(source) if (len(found.fn.__name__) > 150) == long)
    with playing.described_by(gpu_graphs.accelerator(90), 0), tuned._keeping_binaries(kernel) as found:
        config = copy.deepcopy(kernel.compile_results[0].config)
        config.num_warps *= 2  # one that nobody has compiled yet
        made = kernel._precompile_config(config)
    record = TuningRecord(choice=tuned._words(config), kernel=found[tuned._words(config)])
    # Of a rank on the same device: not written to its end yet.
    Path(made.kernel.cubin_path).write_bytes(b"")
    loaded: list[Any] = []

    handles = (1, 1) if hasattr(StaticallyLaunchedCudaKernel, "close") else (1,)  # torch 2.14 has the module's as well

    def load(path: str, name: str, shared: int, device: int) -> tuple[int, ...]:
        loaded.append((Path(path).read_bytes(), name, device))
        return *handles, 32, 0

    loader = SimpleNamespace(_load_kernel=load, _unload_kernel=lambda _: None)
    monkeypatch.setattr(torch._C, "_StaticCudaLauncher", loader)
    launcher = tuned._launcher(kernel, record)
    assert tuned._words(launcher.config) == record.choice
    ((binary, name, device),) = loaded
    assert binary.startswith(b"\x7fELF")
    assert name.encode() in binary
    assert (name, device) == (kernel.fn.__name__, 0)
