"""Where a graph runs: which devices it names, which of them the rank calls its own, and as which one that travels.

A graph that names no other accelerator than the rank's own travels as if that were number 0, so that all ranks share it. One
that names another as well keeps all its indices: it is shared only by ranks that mean the same devices.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import torch
from torch._inductor import config as _config
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.node import map_aggregate

from inductord.compiler.accelerator import Accelerator
from inductord.compiler.adapter import device
from inductord.compiler.adapter.nodes import all_nodes
from inductord.compiler.adapter.seam import GraphCall


class Unsupported(Exception):
    """No worker can play the devices of this graph; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """``accelerator``: None for graphs of the CPU; ``own``: index of the rank's device here; ``travels_as``: what it is called
    in the key, on the wire and in the artifact; ``cpu``: whether something runs on the CPU."""

    accelerator: Accelerator | None
    own: int
    travels_as: int
    cpu: bool

    @property
    def literal(self) -> bool:
        """Whether the indices in the graph mean what they say, on every rank."""
        return self.travels_as == self.own


CPU_ONLY = Placement(None, 0, 0, True)


def of(call: GraphCall) -> Placement:
    """The placement of a graph in this process.

    Raises:
        Unsupported: it runs on a device that is not described, or not on this process's own.
    """
    named = set(_devices(call))
    types = {found.type for found in named}
    if types <= {"cpu"}:
        return CPU_ONLY
    kinds = sorted(types - {"cpu"})
    own = device.own()
    if len(kinds) > 1 or own is None or own.type != kinds[0]:
        raise Unsupported(
            f"it runs on {', '.join(kinds)}, and this rank's accelerator is {own.type if own else 'none'}"
        )
    try:
        accelerator = device.describe(own.type)
    except device.NotDescribed as error:
        raise Unsupported(str(error)) from error
    others = {found.index for found in named if found.type == own.type} - {own.index, None}
    if _config.cpp_wrapper or call.options.get("cpp_wrapper"):
        raise Unsupported("with cpp_wrapper, kernels are tuned on the device while the graph is compiled")
    return Placement(accelerator, own.index, own.index if others else 0, "cpu" in types or _counts(call.gm))


# Inductor makes loops of these, whose counter it keeps on the CPU (torch/_inductor/fx_passes/post_grad.py).
_COUNTED = frozenset({"scan", "map_impl"})


def _counts(gm: torch.fx.GraphModule) -> bool:
    return any(
        isinstance(node.target, HigherOrderOperator) and node.target.name() in _COUNTED for node in all_nodes(gm)
    )


def of_worker() -> Placement:
    """What a worker serves: the CPU, and the device that it was given, if any."""
    mine = device.own()
    try:
        return CPU_ONLY if mine is None else Placement(device.describe(mine.type), mine.index, mine.index, cpu=True)
    except device.NotDescribed:
        return CPU_ONLY


def again(identity: str, own: int, travels_as: int) -> Placement | None:
    """The placement of a graph that an earlier process ran on its own device ``own``. None where this process's own is another
    one, or another model: ``identity`` is that of the accelerator, empty for graphs of the CPU."""
    if not identity:
        return CPU_ONLY
    mine = device.own()
    if mine is None or mine.index != own:
        return None
    try:
        accelerator = device.describe(mine.type)
    except device.NotDescribed:
        return None
    return Placement(accelerator, own, travels_as, cpu=False) if accelerator.identity == identity else None


def _devices(call: GraphCall) -> Iterator[torch.device]:
    for tensor in _tensors(call):
        yield tensor.device
    for node in all_nodes(call.gm):
        yield from _arguments(node)


def _tensors(call: GraphCall) -> Iterator[torch.Tensor]:
    values = list(call.example_inputs)
    for node in all_nodes(call.gm):
        value = node.meta.get("val")
        values += value if isinstance(value, (list, tuple)) else (value,)
    return (value for value in values if isinstance(value, torch.Tensor))


def _arguments(node: torch.fx.Node) -> Iterator[torch.device]:
    found: list[torch.device] = []
    map_aggregate((node.args, node.kwargs), lambda arg: found.append(arg) if isinstance(arg, torch.device) else None)
    return iter(found)


def has_collectives(gm: torch.fx.GraphModule) -> bool:
    """Whether Inductor may ask how many devices there are: it estimates how long collectives take."""
    return any("c10d" in getattr(node.target, "namespace", "") for node in all_nodes(gm))


@contextlib.contextmanager
def renamed(gm: torch.fx.GraphModule, placement: Placement) -> Generator[None]:
    """Inside, arguments of the graph that are the own device carry the index that it travels as."""
    if placement.accelerator is None or placement.literal:
        yield
        return
    own = torch.device(placement.accelerator.type, placement.own)
    other = torch.device(placement.accelerator.type, placement.travels_as)
    touched = [(node, node.args, node.kwargs) for node in all_nodes(gm) if own in list(_arguments(node))]

    def rename(arg: Any) -> Any:
        return other if isinstance(arg, torch.device) and arg == own else arg

    try:
        for node, args, kwargs in touched:
            node.args, node.kwargs = map_aggregate(args, rename), map_aggregate(kwargs, rename)
        _rewrite({node.graph for node, _, _ in touched})
        yield
    finally:
        for node, args, kwargs in touched:
            node.args, node.kwargs = args, kwargs
        _rewrite({node.graph for node, _, _ in touched})


def _rewrite(graphs: set[torch.fx.Graph]) -> None:
    """A module keeps the text of its graph, which is part of how it is pickled."""
    for graph in graphs:
        if (module := graph.owning_module) is not None:
            module.recompile()
            assert module.code  # a lazy module writes its text when it is asked for


def options(call: GraphCall, placement: Placement) -> Mapping[str, Any]:
    """The compile options, with the own device as it travels."""
    name = "boxed_forward_device_index"
    boxed = call.options.get(name)
    if isinstance(boxed, BoxedDeviceIndex) and boxed.value == placement.own and not placement.literal:
        return {**call.options, name: BoxedDeviceIndex(placement.travels_as)}
    return call.options


# Operators for which Inductor has several kernels to choose from, by measuring them.
_MEASURED = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_mm", "_grouped_mm", "_scaled_grouped_mm", "_int_mm"}
)
_MEASURED_HIGHER_ORDER = ("flex_attention", "flex_attention_backward")


def needs_device(call: GraphCall, where: Placement) -> bool:
    """Whether only a process with the device can compile this graph: Inductor measures kernels on it while it compiles, to
    choose among them, or the graph holds values that lie there, as frozen weights do, or sparse tensors."""
    if where.accelerator is None:
        return False
    kind = where.accelerator.type
    return _measures(call) or _holds_values(call.gm, kind) or _has_sparse(call, kind)


def _has_sparse(call: GraphCall, device_type: str) -> bool:
    """PyTorch asks the driver for the device when it detaches one, even a fake one."""
    return any(
        tensor.device.type == device_type and tensor.layout not in (torch.strided, torch.jagged)
        for tensor in _tensors(call)
    )


def _holds_values(gm: torch.fx.GraphModule, device_type: str) -> bool:
    names = {str(node.target) for node in gm.graph.find_nodes(op="get_attr")}
    values: Iterator[Any] = (functools.reduce(getattr, name.split("."), gm) for name in names)
    return any(
        isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and value.device.type == device_type
        for value in values
    )


def _measures(call: GraphCall) -> bool:
    triton = _config.triton
    measures_combined = _config.combo_kernels and _config.benchmark_combo_kernel
    measures_kernels = _config.benchmark_kernel or triton.multi_kernel or triton.autotune_at_compile_time
    if measures_combined or measures_kernels or _config.benchmark_fusion:
        return True
    if not (_config.max_autotune or _config.max_autotune_gemm):
        return False
    return any(_has_choices(node) for node in all_nodes(call.gm))


def fits_any_device(call: GraphCall, where: Placement) -> bool:
    """Whether a process that sees another device of the model, and no further one, can compile this graph in the rank's place.
    Not where it names a second device, or where Inductor may ask how many there are."""
    others = {found.index for found in _devices(call) if found.type != "cpu"} - {where.own, None}
    return not others and not has_collectives(call.gm)


def _has_choices(node: torch.fx.Node) -> bool:
    name = getattr(node.target, "_opname", None) or getattr(node.target, "__name__", "")
    return name in _MEASURED or name in _MEASURED_HIGHER_ORDER
