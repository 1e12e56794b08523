"""What PyTorch knows of a region before AOTAutograd, as a key; and the region's compiled graphs from PyTorch's local cache.

The key is PyTorch's own account of what AOTAutograd's result depends on: operators and literals, inputs with ``requires_grad``,
grad mode, autocast, deterministic algorithms, configuration of AOTAutograd and Inductor, PyTorch's source. Added is what a
region has besides.

Sizes may be symbolic. What was assumed of them is kept as guards, which have to hold again and then are the graph's own. Guards
can only be stated over symbols that are themselves a size of an input; a region in which there are others is not kept.
"""

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd import autograd_cache as _autograd_cache
from torch._functorch._aot_autograd import schemas as _schemas
from torch._inductor import codecache as _codecache
from torch._inductor import config as _config
from torch._inductor import output_code as _output_code
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.utils import BoxedBool
from torch.fx.experimental.symbolic_shapes import free_symbols

from inductord.compiler.adapter import traced_code, tracing
from inductord.compiler.adapter.aot import in_memory_of, symbolic_numbers
from inductord.compiler.adapter.remote_cache import Named, fx_key

_FORMAT = 2
"""Raised when what is kept of a region, or how it is used, changes."""


# PyTorch 2.11 has what Inductor is told besides as an argument of its own.
_OLDER = "fx_config" in inspect.signature(_autograd_cache.autograd_cache_key).parameters
_ASKED_BY_OLDER: tuple[Any, ...] = ({"cudagraphs": False},) if _OLDER else ()


class NotKept(Exception):
    """Nothing is kept of this region: AOTAutograd runs on it in every process."""


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A region before AOTAutograd. ``key``: of all that AOTAutograd's result depends on, 64 hex digits. ``sizes``: the symbolic
    ones of its inputs, each once; ``symbols``: what they were called then."""

    key: str
    sizes: Sequence[torch.SymInt]
    symbols: Sequence[str]


def name(gm: torch.fx.GraphModule, static: frozenset[int], patches: Mapping[str, Any]) -> Name:
    """The name of a region.

    Args:
        gm: the region before AOTAutograd; left as it was.
        static: its inputs that keep their memory from step to step.
        patches: Inductor configuration of this graph.

    Raises:
        NotKept: guards on its symbolic sizes cannot be stated for another process; or PyTorch's own cache would pass it by;
            or AOTAutograd runs code of the job.
    """
    if _config.force_disable_caches:
        raise NotKept("force_disable_caches is set")
    inputs = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
    if code := traced_code.found(gm, inputs):
        raise NotKept(f"{code} is the job's own")
    sizes = _sizes(gm, inputs)
    asked = _schemas.AOTConfig(
        fw_compiler=None,
        bw_compiler=None,
        partition_fn=None,
        decompositions=None,
        num_params_buffers=0,
        aot_id=0,
        keep_inference_input_mutations=True,
    )
    try:
        with _config.patch(dict(patches)):
            theirs, _ = _autograd_cache.autograd_cache_key(gm, inputs, asked, *_ASKED_BY_OLDER)
    except (_autograd_cache.BypassAOTAutogradCache, _codecache.BypassFxGraphCache) as passed_by:
        raise NotKept(str(passed_by)) from passed_by
    symbols = [str(size) for size in sizes]
    # The numbers behind them are in the keys of graphs, too: Inductor chooses tilings by them.
    shown = [symbols, tracing.size_hints(sizes)]
    ours = json.dumps([_FORMAT, theirs, sorted(static), _shared(inputs), _autocast(), shown])
    return Name(hashlib.sha256(ours.encode()).hexdigest(), sizes, symbols)


def _sizes(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[torch.SymInt]:
    """Symbolic sizes that are one symbol, with a known value: of inputs, each once.

    Raises:
        NotKept: there are other symbols in the region.
    """
    plain = [each for each in symbolic_numbers(inputs) if isinstance(each, torch.SymInt) and each.node.expr.is_symbol]
    sizes = {str(each): each for each in tracing.backed_symbols(plain)}
    values = [node.meta.get("example_value") for node in gm.graph.nodes if node.op != "output"]
    for each in symbolic_numbers(values):
        if not isinstance(each, torch.SymInt):
            raise NotKept("a symbolic number is no size")
        if not {str(symbol) for symbol in free_symbols(each)} <= sizes.keys():
            raise NotKept("a symbolic size is none of its inputs'")
    return list(sizes.values())


def guards(region: Name) -> str | None:
    """What is assumed of a region's symbolic sizes by now, as PyTorch states it for another process; None when nothing is.

    Raises:
        NotKept: a size turned out to be a number or that of another symbol: PyTorch states no guard for such.
    """
    if [str(size) for size in region.sizes] != region.symbols:
        raise NotKept("a symbolic size was settled")
    return tracing.guards_expression(region.sizes)


def take_over(guards: str | None, region: Name) -> bool:
    """Whether what was assumed of a region's symbolic sizes holds here. If so it is a guard of the graph that Dynamo is
    compiling."""
    return tracing.take_over_guards(guards, region.sizes)


def _shared(inputs: Sequence[Any]) -> list[int]:
    """For each input, the first one that has the same memory."""
    first: dict[int, int] = {}
    return [
        first.setdefault(in_memory_of(value), place) if isinstance(value, torch.Tensor) else place
        for place, value in enumerate(inputs)
    ]


def _autocast() -> list[list[str]]:
    # Not every supported torch has the type in its own key.
    devices = torch._C._autocast_supported_devices()
    return [[device, str(torch.get_autocast_dtype(device))] for device in devices if torch.is_autocast_enabled(device)]


def named(compiled: Any) -> Named | None:
    """How PyTorch's local cache knows a graph that this process compiled or fetched; None when it does not."""
    found = fx_key(compiled)
    return None if found is None else Named(found, compiled.guards_expr)


def load(graph: Named, *, backward: bool, patches: Mapping[str, Any]) -> Any:
    """A compiled graph from PyTorch's local cache, ready to run; None when it is not there under these guards."""
    constants = _output_code.CompiledFxGraphConstants()
    with _config.patch(dict(patches)):
        found, _ = _codecache.FxGraphCache.load_with_key(
            graph.fx_key,
            [],
            [],
            local=True,
            remote_cache=None,
            is_backward=backward,
            constants=constants,
            evaluate_guards=lambda guards, _: guards == graph.guards,
        )
        if found is None:
            return None
        # CUDA graphs are never captured of a region (``aot.unsuitable``).
        how = {"cudagraphs": BoxedBool(False), "boxed_forward_device_index": BoxedDeviceIndex(None)}
        found.post_compile([], constants, {**how, "is_backward": backward})
    return found
