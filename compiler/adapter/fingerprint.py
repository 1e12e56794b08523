"""PyTorch's own account of what decides the generated code, as parts of a key.

``FxGraphHashDetails`` collects graph, inputs, options, configuration and versions, and ``FxGraphCachePickler`` writes them
so that equal things give equal bytes in every process (torch/_inductor/codecache.py). We digest each part by itself, so
that two keys can be compared part by part.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._inductor import codecache as _codecache
from torch._inductor import config as _config
from torch._subclasses.fake_tensor import FakeTensor

from inductord.compiler.adapter import configuration, neutral, operators, placement, tracing
from inductord.compiler.adapter.bypass import Bypass
from inductord.compiler.adapter.placement import Placement
from inductord.compiler.adapter.seam import GraphCall
from inductord.compiler.reasons import Fallback

_READABLE = 60
"""Longest config value that is shown as it is; longer ones are shown by digest alone."""


class _Pickler(_codecache.FxGraphCachePickler):
    """Writes the device of this rank as the one that it travels as."""

    def __init__(self, gm: torch.fx.GraphModule, has_user_kernels: bool, where: Placement) -> None:
        super().__init__(gm, has_user_kernels)
        self._where = where

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is FakeTensor:
            # A saved tensor that is given other strides grows its storage; that does not survive the wire, and no code depends
            # on it. What code depends on is the offset (alignment), which is kept for inputs that stay where they are.
            metadata = _codecache.extract_tensor_metadata_for_cache_key(obj)
            shape, stride = torch.Size(map(_settled, metadata.shape)), tuple(map(_settled, metadata.stride))
            offset = _settled(metadata.storage_offset)
            return _codecache._ident, (
                dataclasses.replace(metadata, shape=shape, stride=stride, storage_offset=offset, storage_bytes=None),
            )
        if written := neutral.reduced(obj, self._where):
            return written
        inherited = getattr(super(), "reducer_override", None)  # from torch 2.13 on
        return NotImplemented if inherited is None else inherited(obj)


def _settled(value: Any) -> Any:
    """A symbolic number whose value became a matter of the graph while it was traced, as the number that it is: on the other
    side it is that. Everything else as it is."""
    if isinstance(value, torch.SymInt) and (number := value.node.maybe_as_int()) is not None:
        return number
    return value


def parts(call: GraphCall, where: Placement = placement.CPU_ONLY) -> tuple[dict[str, str], dict[str, str]]:
    """Digests (16 hex digits, or 64 for what is large) by name of part, equal in every process that has the same graph; and the
    configuration in words, which is not: what its default is may be a variable's matter.

    Args:
        call: the graph.
        where: its placement in this process, from ``placement.of``.

    Raises:
        Bypass: PyTorch cannot hash something in it, or the configuration holds a function.
    """
    try:
        options = dict(placement.options(call, where))
        _mark_static(call)
        with configuration.of_graphs():
            details = _codecache.FxGraphHashDetails(call.gm, call.example_inputs, options, call.inputs_to_check)
        config = details.inductor_config
        _refuse_functions(config, vars(details))
        for name in _OF_THIS_PROCESS:
            vars(details).pop(name, None)
        # Where the rank will keep the graph: in a package of its own (torch.compile(...).aot_compile), or in Inductor's cache.
        details.precompile_enabled = False
        details.example_inputs = [_settled(value) for value in details.example_inputs]
        pickler = _Pickler(call.gm, bool(details.user_defined_triton_source), where)
        with placement.renamed(call.gm, where):
            found = {name: _digest(pickler.dumps(value)) for name, value in vars(details).items()}
        found["system_info"] = _system_info()
        found |= _device_parts(call, where)
        found["inputs_to_check"] = _digest(repr(list(call.inputs_to_check)).encode())
        # Inductor chooses tilings by the sizes behind symbolic ones: another rank's sizes could give other numbers.
        found["size_hints"] = repr(tracing.size_hints(call.example_inputs))
        found["donated_inputs"] = repr(tracing.donated_inputs())
        if described := operators.describe(call.gm):
            found["operators"] = _digest(repr(list(described)).encode())
        if called := call.user_kernels:
            # PyTorch's account has their texts, constants and configurations, not what tuning puts back between two tries.
            found["user_kernels"] = _digest(repr(list(called)).encode())
    except _codecache.BypassFxGraphCache as reason:
        raise Bypass(Fallback.NOT_CACHEABLE, str(reason)) from reason
    return found, _changed(config, pickler.dumps)


def _refuse_functions(config: dict[str, Any], details: Collection[str]) -> None:
    """Of a function in the configuration the key would have the name, not what it does. ``details``: what PyTorch's account has
    entries of its own for, such as passes, which it asks for their identity.

    Raises:
        Bypass: there is one.
    """
    for name, value in config.items():
        if any(map(callable, value if isinstance(value, (list, tuple)) else (value,))) and name not in details:
            raise Bypass(Fallback.NOT_CACHEABLE, f"{name} is a function, and no key has what it does")


def _mark_static(call: GraphCall) -> None:
    """As Inductor marks them: of inputs that stay where they are, the offset in their storage is part of the key. The mark
    itself does not travel."""
    static = set(call.options.get("static_input_idxs") or ())
    for index, value in enumerate(call.example_inputs):
        if index in static and isinstance(value, torch.Tensor) and value.device.type != "cpu":
            value._is_inductor_static = True  # type: ignore[attr-defined]


# PyTorch asks the device of this process for these, and a worker has none. `_system_info` and the toolchain's accelerator say
# what there is to say; without inputs, the device is that of the placement.
_OF_THIS_PROCESS = ("system_info", "default_cuda_device_index")


def _system_info() -> str:
    """What PyTorch's own account of the system holds beside the name of the device."""
    from torch._inductor.runtime.triton_compat import HAS_TRITON, triton_key

    known = {"triton": triton_key() if HAS_TRITON else None, "cuda": torch.version.cuda, "hip": torch.version.hip}
    return _digest(json.dumps(known, sort_keys=True).encode())


def _device_parts(call: GraphCall, where: Placement) -> dict[str, str]:
    if where.accelerator is None:
        return {}
    found = {"own_device": str(where.travels_as)}
    if placement.has_collectives(call.gm):
        found["device_count"] = str(where.accelerator.count)
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _changed(config: dict[str, Any], dumps: Callable[[Any], bytes]) -> dict[str, str]:
    """Config entries that are not at their default, in words: the digest of the whole config is a part already, these are
    for ``explain``."""
    shown = {}
    for name, value in config.items():
        entry = _config._config.get(name)
        if entry is None or entry.default == value:
            continue
        text = repr(value)
        shown[f"config.{name}"] = text if len(text) <= _READABLE else _digest(dumps(value))[:16]
    return shown
