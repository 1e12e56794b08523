"""What a worker without a GPU compiles for one, and what every rank makes of it."""
# ruff: noqa: E402 - what needs a CUDA build is imported where there is one

import dataclasses
import importlib.util
import inspect
import json
import multiprocessing
import pickle
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [pytest.mark.codegen, pytest.mark.timeout(900)]

if importlib.util.find_spec("triton") is None:
    pytest.skip("needs a CUDA build of PyTorch, with triton: make test-cuda has one", allow_module_level=True)

import torch
from support import gpu_graphs, gpu_models
from support.gpu_travel import Sent, compiled, compiled_alone, loaded, packed, sent, source_for, without_comments
from torch._inductor.codecache import FxGraphCache, PyCodeCache
from torch._inductor.triton_bundler import TritonBundler

from inductord.compiler import cubin, graph_key, payload, relocate, task
from inductord.compiler.adapter import (
    calling,
    compiling,
    kernels,
    placement,
    playing,
    remote_cache,
    tracing,
    triton_target,
    wire,
)
from inductord.compiler.adapter.seam import GraphCall
from inductord.v1.compiler_pb2 import FailureKind


@pytest.mark.parametrize("name", gpu_models.MODELS | gpu_models.FUNCTIONS)
def test_moved_code_is_the_code_that_is_generated_for_that_device(name: str) -> None:
    for call in gpu_models.graphs(name):
        source, table = source_for(call, 0)
        expected, _ = source_for(call, 3)
        moved, sources = relocate.apply(source, table, 0, 3)
        assert table.records
        assert without_comments(moved) == without_comments(expected)
        assert all(kernel in moved for kernel in sources.values())


def test_a_process_that_made_no_fake_tensor_yet_compiles_them(tmp_path: Path) -> None:
    """As every worker is. In this process, the fake tensors of a capture have readied PyTorch for a device that is absent. Nor
    has a worker the modules of this process: pytest entered this one before it imported PyTorch."""
    names = ("dropout", *gpu_models.FUNCTIONS)
    compiled_alone(tmp_path / "worker", [sent(call, 0) for name in names for call in gpu_models.graphs(name)])


def test_ranks_of_all_devices_share_one_artifact_and_compile_no_kernel() -> None:
    call = gpu_models.graphs("masked")[0]
    graphs = {index: sent(call, index) for index in (0, 1, 7)}
    assert len({graph.key for graph in graphs.values()}) == 1
    artifact = compiled(graphs[1])
    counters = torch._dynamo.utils.counters["inductor"]
    for index, graph in graphs.items():
        counters.clear()
        ready = loaded(artifact, graph, index)
        assert set(ready.device_idxs) == {index}
        assert f"get_raw_stream({index})" in ready.source_code
        (lean,) = calling.directly([ready], {0: frozenset()}).graphs
        assert "_DeviceGuard" in ready.compiled_fn_runner.call.__code__.co_names
        assert not {"_DeviceGuard", "assert_size_stride"} & set(lean.__func__.__code__.co_names)
        assert {kernel.device for kernel in ready._triton_bundle.kernel_artifacts} == {index}
        assert counters["triton_bundler_load_static_autotuner"] >= 2
        # Every kernel that was asked for came with the artifact.
        assert counters["async_compile_cache_miss"] == 2 * counters["async_compile_cache_hit"]
    assert not torch.cuda.is_initialized()
    assert not torch.cuda.is_available()


def test_a_second_start_has_the_graph_in_pytorchs_cache_for_its_own_device() -> None:
    call = gpu_models.graphs("masked")[0]
    graph = sent(call, 3)
    artifact = compiled(graph)
    identity = graph.identified.toolchain.accelerator
    with playing.described_by(gpu_graphs.accelerator(90), 3):
        where = placement.again(identity, 3, 0)
        assert where is not None
        assert placement.again(identity, 2, 0) is None
        assert placement.again(f"{identity}, another", 3, 0) is None
    named = remote_cache.Named("a second start on cuda:3", "guards as PyTorch words them")
    assert not remote_cache.has_graph(named)
    remote_cache.add_graph(named, artifact, where)
    assert remote_cache.has_graph(named)
    (file,) = (path for path in Path(FxGraphCache._get_tmp_dir_for_key(named.fx_key)).iterdir() if path.name[0] != ".")
    kept = pickle.loads(file.read_bytes())
    assert (set(kept.device_idxs), kept.guards_expr) == ({3}, named.guards)
    assert "get_raw_stream(3)" in kept.source_code
    assert "get_raw_stream(0)" not in kept.source_code
    assert {kernel.device for kernel in kept._triton_bundle.kernel_artifacts} == {3}
    assert {static.kernel.device_props.index for static in kept._triton_bundle.static_autotuners} == {3}


def test_inductors_own_cache_gets_the_kernels_of_a_graph_that_came_finished() -> None:
    graph = sent(gpu_models.graphs("masked")[0], 2)
    artifact = compiled(graph)
    TritonBundler.begin_compile()  # as Inductor does around the seam
    try:
        loaded(artifact, graph, 2)
        kept, _ = TritonBundler.collect()
    finally:
        TritonBundler.end_compile()
    sent_along = pickle.loads(artifact.content)._triton_bundle
    assert kept.static_autotuners
    assert [static.kernel_name for static in kept.static_autotuners] == [
        static.kernel_name for static in sent_along.static_autotuners
    ]
    assert {static.kernel.device_props.index for static in kept.static_autotuners} == {2}
    hashes = {kernel.kernel_hash for kernel in sent_along.kernel_artifacts}
    assert {(kernel.kernel_hash, kernel.device) for kernel in kept.kernel_artifacts} == {(known, 2) for known in hashes}
    assert all(any(file.filename.endswith(".cubin") for file in kernel.artifacts) for kernel in kept.kernel_artifacts)


def test_on_a_node_with_gpus_the_cpus_compiler_is_prepared_for_the_first_graph_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(compiling, "_prepare_cpu", lambda: done.append("prepared"))
    monkeypatch.setattr(compiling, "_DRIVER", tmp_path / "nvidiactl")
    compiling.warm()
    assert done == ["prepared"]
    compiling._DRIVER.touch()
    compiling.warm()
    assert done == ["prepared"]
    compiling.warm_for_cpu()
    compiling.warm_for_cpu()
    assert done == ["prepared", "prepared"]


def test_a_rank_says_what_triton_compiles_for_without_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import utils
    from torch.utils import _triton
    from triton.runtime import driver

    with playing.described_by(gpu_graphs.accelerator(90), 1):
        expected = inspect.unwrap(_triton.triton_backend)().target
        answers = ((_triton, "triton_backend"), (utils, "get_gpu_dram_gbps"), (utils, "get_device_tflops"))
        for owner, name in (*answers, (torch._utils_internal, "max_clock_rate")):
            monkeypatch.setattr(owner, name, getattr(owner, name))  # put back at the end
        triton_target.install()
        monkeypatch.setattr(driver, "_active", None)
        # Making Triton's driver fails on a machine without one.
        assert _triton.triton_backend().target == expected
        # As of an H200, which is in none of PyTorch's tables. What is of the card is not in a description.
        card = {"memory_clock_rate": 3_201_000, "memory_bus_width": 6144, "clock_rate": 1_980_000}
        described = torch.cuda.get_device_properties()
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: SimpleNamespace(**vars(described), **card))
        monkeypatch.setenv("PATH", "")  # without nvidia-smi
        assert utils.get_gpu_dram_gbps() == pytest.approx(4916.7, abs=0.1)
        assert utils.get_device_tflops(torch.float32) == pytest.approx(132 * 4 * 32 * 1980 * 1e-9)
        assert driver._active is None


def _compiled_for_all(graph: Sent, kept: list[Any]) -> compiling.CompiledGraph:
    """What the rank itself compiles the graph to, for the others; what it runs goes to ``kept``."""
    call = graph.call

    def in_process() -> Any:
        scheme = torch._inductor.compile_fx._InProcessFxCompile()
        return scheme.codegen_and_compile(call.gm, call.example_inputs, (), dict(call.options))

    mode = next(value.fake_mode for value in call.example_inputs if hasattr(value, "fake_mode"))
    with tracing.restored(mode, None), torch._inductor.debug.DebugContext():
        return compiling.compile_for_all(call, in_process, graph.identified.placement, kept.append)


def test_what_a_rank_compiled_for_all_runs_on_their_devices() -> None:
    """The way of graphs whose kernels are measured while they are compiled; here the rank plays its device."""
    call = gpu_models.graphs("masked")[0]
    graphs = {index: sent(call, index) for index in (0, 1, 3)}
    kept: list[Any] = []
    leader = graphs[1]
    one_thread = torch._inductor.config.patch(compile_threads=1)
    with playing.described_by(gpu_graphs.accelerator(90), 1), kernels.compiled_only(), one_thread:
        packed_up = _compiled_for_all(leader, kept)
    assert "get_raw_stream(1)" in kept[0].source_code  # what the leader itself runs
    artifact = payload.unpack_artifact(
        payload.pack_artifact(
            payload.Artifact(leader.key, packed_up.content, packed_up.libraries, packed_up.relocations)
        ),
        leader.key,
    )
    assert "get_raw_stream(0)" in pickle.loads(artifact.content).source_code
    counters = torch._dynamo.utils.counters["inductor"]
    for index in (0, 3):
        counters.clear()
        assert f"get_raw_stream({index})" in loaded(artifact, graphs[index], index).source_code
        assert counters["triton_bundler_load_static_autotuner"] >= 2
        assert counters["async_compile_cache_miss"] == 2 * counters["async_compile_cache_hit"]


def test_a_worker_with_the_device_compiles_on_it_and_one_without_does_not() -> None:
    """The way of the same graphs where a worker has a device; here it plays it."""
    call = gpu_models.graphs("masked")[0]
    with playing.described_by(gpu_graphs.accelerator(90), 3):
        graph = packed(gpu_graphs.moved(call, 3), measures=True)
        assert placement.fits_any_device(graph.call, graph.identified.placement)
    refused = task.compile_graph(graph.key, graph.payload, 1).failure
    assert refused.kind == FailureKind.FAILURE_KIND_UNLOADABLE
    assert "measures on a device, and this worker has none" in refused.message
    with playing.described_by(gpu_graphs.accelerator(80), 0):
        assert placement.of_worker().accelerator == gpu_graphs.accelerator(80)
        assert "this worker has device 0" in task.compile_graph(graph.key, graph.payload, 1).failure.message
    # What a worker would load on its device stays unloaded.
    with playing.described_by(gpu_graphs.accelerator(90), 0), kernels.compiled_only():
        artifact = compiled(graph)
    ready = loaded(artifact, graph, 3)
    assert set(ready.device_idxs) == {3}
    assert "get_raw_stream(3)" in ready.source_code


def test_tensors_reach_a_worker_without_the_history_for_which_autograd_would_ask_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = gpu_models.graphs("elementwise")[0]
    with call.example_inputs[0].fake_mode:
        # As the second bucket of DDP, which is given what the first has computed.
        activation = torch.randn(64, 64, requires_grad=True) * 2
    inputs = [activation, activation.t(), *call.example_inputs[1:]]

    def known(values: list[Any]) -> list[tuple[bool, bool, bool]]:
        return [(value.requires_grad, value._is_view(), value.is_leaf) for value in values]

    assert known(inputs)[:2] == [(True, False, False), (True, True, False)]
    content = wire.dumps(dataclasses.replace(call, example_inputs=inputs))
    there = wire.loads(content, tracing.fresh_fake_mode()).example_inputs
    assert known(there)[:2] == [(True, False, True), (True, True, True)]

    # Nor do they get one while they are compiled.
    modes: list[bool] = []
    compile_graph = compiling.compile_graph

    def noting(*arguments: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return compile_graph(*arguments)

    monkeypatch.setattr(compiling, "compile_graph", noting)
    compiled(sent(call, 0))
    assert modes == [False]


def test_a_graph_that_names_another_device_is_shared_only_by_who_means_the_same() -> None:
    call = gpu_models.graphs("masked")[0]

    def naming_another(index: int, other: int) -> Sent:
        with playing.described_by(gpu_graphs.accelerator(90), index):
            moved = gpu_graphs.moved(call, index)
            node = next(node for node in moved.gm.graph.nodes if "device" in node.kwargs)
            node.kwargs = {**node.kwargs, "device": torch.device("cuda", other)}
            moved.gm.recompile()
            return packed(moved)

    plain = sent(call, 0)
    others = [naming_another(0, 1), naming_another(1, 0), naming_another(1, 2)]
    assert len({graph.key for graph in (plain, *others)}) == 4
    assert others[0].key == naming_another(0, 1).key
    assert [graph.identified.placement.travels_as for graph in others] == [0, 1, 1]
    assert all(graph.identified.placement.literal for graph in others)


@pytest.mark.parametrize("capability", [80, 86, 89, 90, 100])
def test_kernels_are_compiled_for_each_architecture(capability: int) -> None:
    graph = sent(gpu_models.graphs("masked")[0], 0, capability)
    bundle = pickle.loads(compiled(graph).content)._triton_bundle
    assert bundle.kernel_artifacts
    for kernel in bundle.kernel_artifacts:
        files = {file.filename.rpartition(".")[2]: file.payload for file in kernel.artifacts}
        assert json.loads(files["json"])["target"]["arch"] == capability
        assert 8 <= cubin.registers(files["cubin"]) <= 255
        assert set(files) == {"json", "cubin"}  # what else Triton made stays with the worker


def test_kernels_that_are_compiled_side_by_side_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process that compiles them plays the device: Inductor's own pool of processes would find none."""
    graph = sent(gpu_models.graphs("masked")[0], 0)

    def kernels_by(threads: int) -> dict[str, tuple[int, list[tuple[str, bytes]]]]:
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
        # All is compiled, by so many: this process and the disk have nothing of earlier tests.
        PyCodeCache.cache_clear()
        shutil.rmtree(tmp_path / "triton", ignore_errors=True)
        torch._dynamo.utils.counters.clear()
        bundle = pickle.loads(compiled(graph, threads).content)._triton_bundle
        assert torch._dynamo.utils.counters["inductor"]["async_compile_cache_miss"] >= 2
        return {
            kernel.kernel_hash: (kernel.device, sorted((file.filename, file.payload) for file in kernel.artifacts))
            for kernel in bundle.kernel_artifacts
        }

    before = multiprocessing.active_children()
    assert kernels_by(3) == kernels_by(1)
    assert multiprocessing.active_children() == before


def test_a_kernel_with_a_long_name_is_launched_without_a_compiler_as_all_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward = gpu_models.graphs("llama")[-1]
    graph = sent(backward, 0)
    by_worker = compiled(graph).content
    # A rank compiles as PyTorch does, in processes that know nothing of inductord.
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    processes = torch._inductor.config.patch(compile_threads=2)
    described = playing.described_by(gpu_graphs.accelerator(90), 0)
    with described, kernels.compiled_only(), processes, compiling._kernels_in_forks():
        by_rank = _compiled_for_all(graph, []).content
    for artifact in (by_worker, by_rank):
        content = pickle.loads(artifact)
        names = set(re.findall(r"^(\w+) = async_compile.triton\(", content.source_code, re.MULTILINE))
        # Triton cuts such a name in the names of its files, where PyTorch looks for the whole of it.
        assert max(map(len, names)) > 150
        assert {kernel.kernel_name for kernel in content._triton_bundle.static_autotuners} == names


def test_keys_say_the_model_of_the_device_and_nothing_of_the_machine() -> None:
    call = gpu_models.graphs("masked")[0]
    one, other = sent(call, 0, 80), sent(call, 0, 90)
    assert one.key != other.key
    differing = {
        name
        for name in one.identified.key.parts
        if one.identified.key.parts[name] != other.identified.key.parts.get(name)
    }
    assert differing == {"toolchain.accelerator"}
    assert (one.identified.toolchain.cpu, one.identified.toolchain.cxx) == ("", "")
    assert one.identified.toolchain.accelerator.startswith("NVIDIA sm_80 80 cuda ")


def test_how_large_a_storage_has_grown_is_no_part_of_the_key() -> None:
    call = gpu_models.graphs("masked")[0]
    with playing.described_by(gpu_graphs.accelerator(90), 1):
        moved = gpu_graphs.moved(call, 1)
        mode = moved.example_inputs[0].fake_mode
        with mode:
            base = torch.empty(4, 8, device="cuda:1")
            small = base.as_strided((4, 8), (8, 1))
            base.as_strided((4, 8), (80, 1))  # as AOTAutograd does when the compiled forward pads
        static = {**moved.options, "static_input_idxs": (0,)}
        grown = packed(dataclasses.replace(moved, example_inputs=[small, *moved.example_inputs[1:]], options=static))
    travelled = payload.unpack_graph(grown.payload)
    with playing.described_by(travelled.accelerator, travelled.own_device):
        back = wire.loads(travelled.content, tracing.fresh_fake_mode()).call()
        assert graph_key.identify(back).key.parts["example_inputs"] == grown.identified.key.parts["example_inputs"]


def test_a_worker_refuses_what_its_pytorch_was_not_built_for() -> None:
    graph = sent(gpu_models.graphs("masked")[0], 0)
    message = payload.GraphPayload.FromString(graph.payload)
    message.accelerator.runtime = "cuda 1.0"
    reply = task.compile_graph(graph.key, message.SerializeToString(), 1)
    assert reply.failure.kind == FailureKind.FAILURE_KIND_UNLOADABLE
    assert "built for cuda 1.0" in reply.failure.message
    message.accelerator.type = "xpu"
    reply = task.compile_graph(graph.key, message.SerializeToString(), 1)
    assert "xpu" in reply.failure.message


def test_a_worker_says_what_differs_when_its_key_is_another() -> None:
    graph = sent(gpu_models.graphs("masked")[0], 0)
    message = payload.GraphPayload.FromString(graph.payload)
    properties = json.loads(message.accelerator.properties)
    message.accelerator.properties = json.dumps(properties | {"multi_processor_count": 7})
    reply = task.compile_graph(graph.key, message.SerializeToString(), 1)
    assert reply.failure.kind == FailureKind.FAILURE_KIND_KEY_MISMATCH
    assert "toolchain.accelerator" in reply.failure.message


def test_which_graphs_need_the_device_while_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    call = gpu_models.graphs("masked")[0]
    elementwise = gpu_models.graphs("elementwise")[0]

    def needs(graph: GraphCall, **settings: Any) -> bool:
        with config.patch(settings), playing.described_by(gpu_graphs.accelerator(90), 0):
            moved = gpu_graphs.moved(graph, 0)
            return placement.needs_device(moved, placement.of(moved))

    assert not needs(call)
    assert needs(call, max_autotune=True)
    assert needs(call, max_autotune_gemm=True)
    assert not needs(elementwise, max_autotune=True)
    assert needs(elementwise, combo_kernels=True, benchmark_combo_kernel=True)
    assert not needs(elementwise, benchmark_combo_kernel=True)
    assert needs(elementwise, **{"triton.autotune_at_compile_time": True})
    assert not placement.needs_device(call, placement.CPU_ONLY)
    # No value can lie on a device that is played; on the CPU one can.
    held = dataclasses.replace(elementwise, gm=torch.fx.GraphModule({}, torch.fx.Graph()))
    held.gm.register_buffer("frozen", torch.ones(3))
    held.gm.graph.get_attr("frozen")
    where = dataclasses.replace(
        placement.CPU_ONLY, accelerator=dataclasses.replace(gpu_graphs.accelerator(90), type="cpu")
    )
    assert placement.needs_device(held, where)
    sparse = dataclasses.replace(elementwise, example_inputs=[torch.ones(3).to_sparse()])
    assert placement.needs_device(sparse, where)
    for graph in (held, sparse):
        assert not placement.needs_device(graph, dataclasses.replace(where, accelerator=gpu_graphs.accelerator(90)))


def test_code_that_asks_for_its_device_has_nothing_to_move() -> None:
    if not hasattr(torch.compiler.config, "compile_on_one_rank"):
        pytest.skip(f"torch {torch.__version__} has no compile_on_one_rank; it came with 2.14")
    call = gpu_models.graphs("masked")[0]
    with torch.compiler.config.patch(compile_on_one_rank=True):
        graph = sent(call, 1)
    assert graph.key != sent(call, 1).key
    artifact = compiled(graph)
    assert artifact.relocations is not None
    assert len(artifact.relocations.kernels) >= 2
    assert "get_raw_stream(0)" not in pickle.loads(artifact.content).source_code
    assert f"get_raw_stream({3})" not in loaded(artifact, sent_on(call, 3), 3).source_code


def sent_on(call: GraphCall, index: int) -> Sent:
    with torch.compiler.config.patch(compile_on_one_rank=True):
        return sent(call, index)
