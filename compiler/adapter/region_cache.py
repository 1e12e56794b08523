"""What PyTorch knows of a region before AOTAutograd, as a key; and the region's compiled graphs from PyTorch's local cache.

The key is PyTorch's own account of what AOTAutograd's result depends on: operators and literals, inputs with ``requires_grad``,
grad mode, autocast, deterministic algorithms, configuration of AOTAutograd and Inductor, PyTorch's source. Added is what a
region has besides.
"""

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
from torch._subclasses.fake_tensor import FakeTensor

from inductord.compiler.adapter.aot import in_memory_of
from inductord.compiler.adapter.remote_cache import Named, fx_key

_FORMAT = 1
"""Raised when what is kept of a region, or how it is used, changes."""


# PyTorch 2.11 has what Inductor is told besides as an argument of its own.
_OLDER = "fx_config" in inspect.signature(_autograd_cache.autograd_cache_key).parameters
_ASKED_BY_OLDER: tuple[Any, ...] = ({"cudagraphs": False},) if _OLDER else ()


class NotKept(Exception):
    """Nothing is kept of this region: AOTAutograd runs on it in every process."""


def key(gm: torch.fx.GraphModule, static: frozenset[int], patches: Mapping[str, Any]) -> str:
    """A name for all that AOTAutograd's result for a region depends on, 64 hex digits.

    Args:
        gm: the region before AOTAutograd; left as it was.
        static: its inputs that keep their memory from step to step.
        patches: Inductor configuration of this graph.

    Raises:
        NotKept: sizes in it are symbolic, and guards on them belong to the process that made them; or PyTorch's own cache
            would pass it by.
    """
    values = [node.meta.get("example_value") for node in gm.graph.nodes if node.op != "output"]
    if any(map(_is_symbolic, values)):
        raise NotKept("sizes are symbolic")
    inputs = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
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
    ours = json.dumps([_FORMAT, theirs, sorted(static), _shared(inputs), _autocast()])
    return hashlib.sha256(ours.encode()).hexdigest()


def _is_symbolic(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_is_symbolic, value))
    if isinstance(value, FakeTensor):
        return value._has_symbolic_sizes_strides
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


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
    name = fx_key(compiled)
    return None if name is None else Named(name, compiled.guards_expr)


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
