"""What a rank's environment tells Triton: in the key, obeyed by a worker, and nothing of the worker's own environment."""
# ruff: noqa: E402 - what needs a CUDA build is imported where there is one

import importlib.util
import json
import os
import pickle
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.codegen, pytest.mark.timeout(900)]

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs a CUDA build of PyTorch, with triton: make test-cuda has one", allow_module_level=True)

import torch
from support import gpu_models
from support.gpu_travel import Sent, compiled, sent
from torch._inductor import config
from torch._inductor.runtime import compile_tasks
from triton import knobs

from inductord.compiler import payload, task, triton_variables
from inductord.compiler.adapter import bypass, tracing, triton_settings
from inductord.compiler.reasons import Fallback
from inductord.v1.compiler_pb2 import FailureKind

OPTION = "DISABLE_PTXAS_OPT"
NO_MATTER = {"TRITON_CUOBJDUMP_PATH", "TRITON_NVDISASM_PATH", "TRITON_LIBCUDA_PATH", "TRITON_STORE_BINARY_ONLY"}
"""Tools that only look at binaries, the driver's library, and what is kept of a compile."""


def elementwise() -> Sent:
    return sent(gpu_models.graphs("elementwise")[0], 0)


def unoptimised(artifact: payload.Artifact) -> set[bool]:
    """Whether its kernels were assembled without optimising, as Triton noted it beside them."""
    bundle = pickle.loads(artifact.content)._triton_bundle
    files = [file for kernel in bundle.kernel_artifacts for file in kernel.artifacts]
    noted = [json.loads(file.payload) for file in files if file.filename.endswith(".json")]
    return {note.get(OPTION) is not None for note in noted if "hash" in note}


def test_every_variable_that_triton_reads_for_a_compile_is_known() -> None:
    groups = (knobs.compilation, knobs.language, knobs.nvidia, knobs.runtime)
    read = {knob.key for group in groups for knob in group.knob_descriptors.values()}
    assert read <= triton_variables.DECIDING | triton_variables.LOCAL | {*triton_variables.TOOLS} | NO_MATTER


def test_a_worker_compiles_as_the_rank_would(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = elementwise()
    monkeypatch.setenv(OPTION, "1")
    told = elementwise()
    monkeypatch.delenv(OPTION)
    assert told.key != plain.key
    assert [unoptimised(compiled(graph)) for graph in (plain, told, plain)] == [{False}, {True}, {False}]
    assert OPTION not in os.environ
    # What a worker was started with is not the rank's.
    monkeypatch.setenv(OPTION, "1")
    assert unoptimised(compiled(plain)) == {False}


def test_a_worker_without_the_ranks_assembler_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = elementwise()
    monkeypatch.setenv("TRITON_PTXAS_PATH", sys.executable)
    told = elementwise()
    monkeypatch.delenv("TRITON_PTXAS_PATH")
    assert told.key != plain.key
    refused = task.compile_graph(told.key, told.payload, 1).failure
    assert refused.kind == FailureKind.FAILURE_KIND_KEY_MISMATCH
    assert "process.triton" in refused.message


def test_a_copy_of_tritons_own_file_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path(knobs.__file__).parent / "backends" / "nvidia" / "lib" / "libdevice.10.bc"
    copied = tmp_path / "libdevice.bc"
    copied.write_bytes(own.read_bytes())
    for path, described in ((own, {}), (copied, {}), (tmp_path / "absent", {"TRITON_LIBDEVICE_PATH": ""})):
        monkeypatch.setenv("TRITON_LIBDEVICE_PATH", str(path))
        assert triton_settings.describe() == described


def test_the_libdevice_of_a_toolkit_counts_where_inductor_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(compile_tasks, "_set_triton_libdevice_path"):
        pytest.skip(f"torch {torch.__version__} takes Triton's; from 2.14 on it may be the toolkit's")
    file = tmp_path / "nvvm" / "libdevice" / "libdevice.10.bc"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr("torch.utils.cpp_extension.CUDA_HOME", str(tmp_path))
    with config.patch(emulate_precision_casts=True):
        absent = triton_settings.describe()
        file.write_bytes(b"other rounding")
        triton_settings._digest.cache_clear()
        there = triton_settings.describe()
        # Inductor says so itself, once it has compiled a kernel; this is no other key.
        monkeypatch.setenv("TRITON_LIBDEVICE_PATH", str(file))
        assert triton_settings.describe() == there
    assert (absent, list(there)) == ({"libdevice": ""}, ["libdevice"])
    assert there != absent


def test_what_only_the_ranks_own_triton_can_obey_stays_with_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    call = gpu_models.graphs("elementwise")[0]
    with tracing.restored(call.example_inputs[0].fake_mode, None):
        monkeypatch.setenv("TRITON_KERNEL_DUMP", "0")
        bypass.check(call)
        monkeypatch.setenv("TRITON_KERNEL_DUMP", "1")
        with pytest.raises(bypass.Bypass, match="TRITON_KERNEL_DUMP") as raised:
            bypass.check(call)
    assert raised.value.reason == Fallback.DEBUG_TRACE
