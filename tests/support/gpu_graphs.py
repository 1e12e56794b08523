"""GPU graphs where there is no GPU: models are traced on the CPU, and their graphs moved to a described device.

Autograd itself asks the CUDA runtime for streams, so a backward graph cannot be traced on a device that is not there. Needs a
CUDA build of PyTorch with Triton (the marker ``codegen``); nothing is run on a device.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.utils import BoxedBool
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from inductord.compiler.accelerator import Accelerator
from inductord.compiler.adapter import tracing
from inductord.compiler.adapter.seam import GraphCall

_LIMITS = {
    80: (108, 166912, 2048),
    86: (84, 101376, 1536),
    89: (142, 101376, 1536),
    90: (132, 232448, 2048),
    100: (148, 232448, 2048),
}
"""Multiprocessors, shared memory a block may ask for, threads a multiprocessor holds, by compute capability."""


def accelerator(capability: int, count: int = 8) -> Accelerator:
    """A card of this compute capability, as a rank would describe it."""
    processors, shared, threads = _LIMITS[capability]
    major, minor = divmod(capability, 10)
    properties = {
        "name": f"NVIDIA sm_{capability}", "major": major, "minor": minor, "multi_processor_count": processors,
        "total_memory": 80 << 30, "warp_size": 32, "max_threads_per_multi_processor": threads, "max_threads_per_block": 1024,
        "regs_per_multiprocessor": 65536, "L2_cache_size": 50 << 20, "shared_memory_per_block": 49152,
        "shared_memory_per_block_optin": shared, "shared_memory_per_multiprocessor": shared + 1024, "is_integrated": 0,
        "is_multi_gpu_board": 0, "gcnArchName": "",
    }  # fmt: skip
    return Accelerator(
        "cuda", f"NVIDIA sm_{capability}", str(capability), f"cuda {torch.version.cuda}", properties, count
    )


def compile_options(static_inputs: Sequence[int], **more: Any) -> dict[str, Any]:
    """What Inductor is told beside a graph and its inputs."""
    return {
        "cudagraphs": BoxedBool(False),
        "static_input_idxs": static_inputs,
        "is_backward": False,
        "is_inference": True,
        "graph_id": 0,
        "cpp_wrapper": False,
        "fx_wrapper": False,
        "aot_mode": False,
        "layout_opt": None,
        "extern_node_serializer": None,
        "boxed_forward_device_index": BoxedDeviceIndex(None),
        **more,
    }


def capture(
    run: Callable[..., torch.Tensor],
    *arguments: Any,
    backward: bool = True,
    dynamic: bool = False,
    runs: bool = True,
) -> list[GraphCall]:
    """Forward and backward graphs of a function on the CPU, as Inductor would be handed them. ``runs``: whether a CPU can run
    them; else they give zeros."""
    found: list[GraphCall] = []

    def take(is_backward: bool) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Any]:
        def compiler(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            static = tuple(range(len(inputs) // 2))
            options = compile_options(static, is_backward=is_backward, is_inference=not backward, graph_id=len(found))
            found.append(GraphCall(copy.deepcopy(gm), list(inputs), (), options))
            return make_boxed_func(gm.forward if runs else _zeros(gm))

        return compiler

    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=take(False),
        bw_compiler=take(True),
        inference_compiler=take(False),
        partition_fn=_partition,
        decompositions=select_decomp_table(),
    )
    with torch.set_grad_enabled(backward):
        result = torch.compile(run, backend=backend, dynamic=dynamic)(*arguments)
    if backward:
        result.backward()
    return found


def _zeros(gm: torch.fx.GraphModule) -> Callable[..., list[torch.Tensor]]:
    noted = [node.meta["val"] for node in gm.graph.output_node().args[0]]
    return lambda *_: [torch.zeros(value.shape, dtype=value.dtype) for value in noted]


def _partition(gm: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """As Inductor does it."""
    with V.set_fake_mode(tracing.current_fake_mode()):
        joint_graph_passes(gm)
    return min_cut_rematerialization_partition(gm, inputs, **options, compiler="inductor")


def moved(call: GraphCall, index: int) -> GraphCall:
    """The same graph on ``cuda:index``. Call it inside ``device.described_by``."""
    target = torch.device("cuda", index)

    def on_device(value: Any) -> Any:
        if isinstance(value, torch.device) and value.type == "cpu":
            return target
        return value

    gm = copy.deepcopy(call.gm)
    for node in gm.graph.nodes:
        node.args = map_aggregate(node.args, on_device)
        node.kwargs = map_aggregate(node.kwargs, on_device)
    gm.recompile()
    mode = next(value.fake_mode for value in call.example_inputs if isinstance(value, FakeTensor))
    with mode:
        inputs = [
            torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=target, requires_grad=value.requires_grad
            )
            if isinstance(value, torch.Tensor)
            else value
            for value in call.example_inputs
        ]
    FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*inputs)
    options = {**call.options, "boxed_forward_device_index": BoxedDeviceIndex(index)}
    return GraphCall(gm, inputs, call.inputs_to_check, options)
