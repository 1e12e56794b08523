"""The worker's side: a graph in, a compiled graph out, as bytes that a rank can load without a compiler."""

import contextlib
import copy
import dataclasses
import pickle
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor import async_compile as _async_compile
from torch._inductor import codecache as _codecache
from torch._inductor import compile_fx as _compile_fx
from torch._inductor import config as _config
from torch._inductor import cpu_vec_isa as _cpu_vec_isa
from torch._inductor import metrics as _metrics
from torch._inductor import output_code as _output_code
from torch._inductor.debug import DebugContext
from torch._inductor.triton_bundler import TritonBundler
from torch.hub import tqdm  # type: ignore[attr-defined]

from inductord.compiler import relocate
from inductord.compiler.adapter import graph_metrics, kernels, moving, opaque, shared_objects, tracing, triton_target
from inductord.compiler.adapter.placement import CPU_ONLY, Placement
from inductord.compiler.adapter.replacing import replaced
from inductord.compiler.adapter.seam import GraphCall, InProcess
from inductord.compiler.payload import Library
from inductord.compiler.relocate import Table


class NotAnArtifact(Exception):
    """Inductor gave something that is no compiled graph and cannot travel."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledGraph:
    """``content``: the pickled ``CompiledFxGraph``; ``libraries``: C++ kernel libraries by source digest; ``relocations``:
    where its source names the own device, None for graphs of the CPU."""

    content: bytes
    libraries: dict[str, Library]
    relocations: Table | None = None


@contextlib.contextmanager
def configured(config: dict[str, Any], threads: int) -> Generator[None]:
    """Run the block under the rank's Inductor configuration, with at most ``threads`` compiler threads of our own.

    Inductor sizes its inner pools from the CPUs of the host; the node's pool has shared them out already.
    """
    _set_inner_pool(threads)
    triton_target.choose_assembler()
    # AOTAutograd compiles without gradients. With them, tensors of the graph would be given a history, for which autograd asks
    # the device.
    with (
        torch.no_grad(),
        _config.patch({**config, "compile_threads": threads, "fx_graph_cache": False, "fx_graph_remote_cache": False}),
    ):
        yield


def _set_inner_pool(threads: int) -> None:
    pool = _async_compile.AsyncCompile.pool
    if pool.cache_info().currsize and pool()._max_workers != threads:
        pool().shutdown(wait=True)
        pool.cache_clear()


# Forks that compile kernels, at most. A graph has a few dozen kernels, and each fork copies the page tables of a large process.
_MOST_FORKS = 8


@contextlib.contextmanager
def _kernels_in_forks() -> Generator[None]:
    """Compile Triton kernels of the block in forks of this process, which play its device as it does. Inductor's own choice is
    a pool of fresh processes: it takes seconds to start, and finds no GPU where one is played."""
    if _config.compile_threads <= 1:
        yield
        return
    _end_kernel_processes()
    threads = min(_config.compile_threads, _MOST_FORKS)
    with _config.patch({"worker_start_method": "fork", "compile_threads": threads}):
        _async_compile.AsyncCompile.wait_pool_ready()  # else the first kernels would be compiled here, one by one
        try:
            yield
        finally:
            _end_kernel_processes()
            # Of a compile that failed, kernels that nobody fetched.
            _async_compile.CompiledTritonKernels.cache_clear()


def _end_kernel_processes() -> None:
    made = _async_compile.AsyncCompile.process_pool
    if made.cache_info().currsize:
        pool = made()
        pool.shutdown(wait=True)
        _async_compile._pool_set.discard(pool)
        made.cache_clear()
    _async_compile.AsyncCompile._ready_future = None


@contextlib.contextmanager
def _no_process_groups() -> Generator[None]:
    """A worker is in none. For the repro script in its traces, newer releases ask for the sizes of groups; and the pass that
    joins what DDP reduces asks which rank is to log about it."""
    with (
        replaced("torch._dynamo.repro.after_aot._extract_distributed_info", lambda gm: {}),
        replaced("torch.distributed.get_rank", _rank_of_a_worker),
    ):
        yield


def _rank_of_a_worker(group: Any = None) -> int:
    if group is None:
        return -1
    raise ValueError("a worker is in no process group")


def compile_graph(call: GraphCall, where: Placement = CPU_ONLY) -> CompiledGraph:
    """Compile a graph in this process, inside ``configured`` and ``tracing.restored``.

    Raises whatever Inductor raises.

    Raises:
        NotAnArtifact: Inductor's result is of a kind that is not shipped.
    """
    _metrics.reset()
    counters.clear()
    forks = _kernels_in_forks() if where.accelerator is not None else contextlib.nullcontext()
    with (
        DebugContext(), _no_process_groups(), shared_objects.recording() as recorder, kernels.compiled_only(),
        kernels.launched_from_binaries(), forks, graph_metrics.counted() as metrics,
    ):  # fmt: skip
        TritonBundler.begin_compile()
        try:
            graph = _compile_fx._InProcessFxCompile().codegen_and_compile(
                call.gm, call.example_inputs, call.inputs_to_check, dict(call.options)
            )
            bundle, _ = TritonBundler.collect()
        finally:
            TritonBundler.end_compile()
    if not isinstance(graph, _output_code.CompiledFxGraph):
        raise NotAnArtifact(f"Inductor gave a {type(graph).__name__}")
    graph.guards_expr = tracing.guards_expression(call.example_inputs)
    libraries = recorder.libraries()
    if libraries and not where.cpu:
        raise NotAnArtifact("C++ kernels in a graph that runs nothing on the CPU: its key does not say for which CPU")
    return pack(graph, bundle, libraries, where, metrics)


def compile_for_all(
    call: GraphCall, in_process: InProcess, where: Placement, keep: Callable[[Any], None]
) -> CompiledGraph:
    """Compile a graph as Inductor does in this process, on its device. ``keep`` is given the graph that runs here as soon as
    there is one; returned is what others load.

    Raises whatever Inductor raises, and whatever packing raises.

    Raises:
        NotAnArtifact: Inductor's result is of a kind that is not shipped.
    """
    if not kernels.bundles():
        raise NotAnArtifact("Inductor is configured not to bundle its kernels")
    with (
        shared_objects.recording() as recorder, kernels.bundled() as bundle, kernels.launched_from_binaries(),
        graph_metrics.counted() as metrics,
    ):  # fmt: skip
        graph = in_process()
        keep(graph)
    if not isinstance(graph, _output_code.CompiledFxGraph):
        raise NotAnArtifact(f"Inductor gave a {type(graph).__name__}")
    if where.accelerator is not None and not where.literal and _constants_on(graph, where.accelerator.type):
        raise NotAnArtifact("it holds constants that lie on this rank's device")
    shipped = copy.copy(graph)
    shipped.prepare_for_serialization()
    shipped.guards_expr = tracing.guards_expression(call.example_inputs)
    shipped.set_triton_bundle(bundle[0])
    neutral = dataclasses.replace(where, own=where.travels_as, travels_as=where.own)
    if where.accelerator is not None:
        moving.to_own_device(shipped, relocate.find(graph.source_code, where.accelerator.type, where.own), neutral)
    as_it_travels = dataclasses.replace(where, own=where.travels_as)
    return pack(shipped, shipped._triton_bundle, recorder.libraries(), as_it_travels, metrics)


def _constants_on(graph: Any, device_type: str) -> bool:
    """Whether tensors lie there that are pickled with the graph. Frozen weights are not: each rank takes its own."""
    held = (graph.constants or {}).values()
    return any(isinstance(value, torch.Tensor) and value.device.type == device_type for value in held)


def compile_measured(call: GraphCall, where: Placement) -> CompiledGraph:
    """As ``compile_graph``, where this process has the device of the graph: Inductor measures on it.

    Raises whatever Inductor raises, and whatever packing raises.

    Raises:
        NotAnArtifact: Inductor's result is of a kind that is not shipped.
    """
    _metrics.reset()
    counters.clear()

    def in_process() -> Any:
        return _compile_fx._InProcessFxCompile().codegen_and_compile(
            call.gm, call.example_inputs, call.inputs_to_check, dict(call.options)
        )

    with DebugContext(), _no_process_groups():
        return compile_for_all(call, in_process, where, keep=_nothing)


def _nothing(graph: Any) -> None:
    """A worker runs no graph."""


def pack(
    graph: Any, bundle: Any, libraries: dict[str, Library], where: Placement, metrics: dict[str, Any]
) -> CompiledGraph:
    """A graph that was compiled in this process, as it is shipped. ``graph`` stays as it is. ``metrics``: what compiling it
    counted (``graph_metrics.counted``).

    Raises:
        NotRelocatable: what Inductor generated is no Python.
    """
    shipped = copy.copy(graph)
    graph_metrics.note(shipped, metrics)
    shipped.set_triton_bundle(kernels.slim(bundle))
    shipped.prepare_for_serialization()
    shipped.opaque_value_type_classes = opaque.by_name(shipped.opaque_value_type_classes)
    relocations = None
    if where.accelerator is not None:
        relocations = relocate.find(graph.source_code, where.accelerator.type, where.own)
    return CompiledGraph(pickle.dumps(shipped, protocol=pickle.HIGHEST_PROTOCOL), libraries, relocations)


_PROBES_AT_ONCE = 4
_FIRST_KERNEL = """
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(float* out) { out[0] = at::vec::Vectorized<float>(0).size(); }
"""


_DRIVER = Path("/dev/nvidiactl")
_cpu_is_left = False


def warm() -> None:
    """Do what the first compile of a process would wait for: imports, and the C++ compiler's first steps. The latter took 28 of
    40 s on a machine with an H100, and graphs for a GPU need none of them: on such a machine they are left to the first graph
    that does."""
    # Its progress bars would start a thread, and a process with threads cannot be forked.
    tqdm.monitor_interval = 0
    # Registers all lowerings and patterns.
    from torch._inductor.fx_passes import joint_graph, post_grad

    with _cuda_untouched():
        joint_graph.lazy_init()
        post_grad.lazy_init()
    global _cpu_is_left
    _cpu_is_left = torch.version.cuda is not None and _DRIVER.exists()
    if not _cpu_is_left:
        _prepare_cpu()


def _cuda_untouched() -> contextlib.AbstractContextManager[None]:
    """A fake tensor mode asks CUDA how many devices there are, and CUDA starts a thread of its own, even where none is visible.
    A process with threads cannot be forked: the question is left to whoever compiles the first graph."""
    return replaced("torch._C._ensureCUDADeviceGuardSet", lambda: None)


def warm_for_cpu() -> None:
    """Before a graph for the CPU: do what ``warm`` left out."""
    global _cpu_is_left
    if _cpu_is_left:
        _cpu_is_left = False
        _prepare_cpu()


def _prepare_cpu() -> None:
    _probe_vector_units()
    # Precompiles the header of all kernels.
    _codecache.CppPythonBindingsCodeCache.load_pybinding(["float*"], _FIRST_KERNEL)


def _probe_vector_units() -> None:
    """Let each vector unit that this CPU has be tried side by side; Inductor would try one after the other.

    A unit's truth value is the result of a trial compile, which is remembered.
    """
    flags = set(_cpu_vec_isa.x86_isa_checker())
    units = [unit for unit in _cpu_vec_isa.supported_vec_isa_list if flags.issuperset(str(unit).split())]
    with ThreadPoolExecutor(_PROBES_AT_ONCE) as executor:
        list(executor.map(bool, units))
