"""PyTorch's own account of what decides the generated code, as parts of a key.

``FxGraphHashDetails`` collects graph, inputs, options, configuration and versions, and ``FxGraphCachePickler`` writes them
so that equal things give equal bytes in every process (torch/_inductor/codecache.py). We digest each part by itself, so
that two keys can be compared part by part.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import codecache as _codecache
from torch._inductor import config as _config

from inductord.compiler.adapter import tracing
from inductord.compiler.adapter.bypass import Bypass
from inductord.compiler.adapter.seam import GraphCall
from inductord.compiler.reasons import Fallback

_READABLE = 60
"""Longest config value that is shown as it is; longer ones are shown by digest alone."""


class _Pickler(_codecache.FxGraphCachePickler):
    """Writes the device of this rank without its index: what is compiled for one serves all."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is torch.device and obj.type != "cpu" and obj.index == _own_index(obj.type):
            return _own_device, (obj.type,)
        inherited = getattr(super(), "reducer_override", None)  # from torch 2.13 on
        return NotImplemented if inherited is None else inherited(obj)


def _own_device(device_type: str) -> None:
    """Stands in the written bytes for the device that a rank calls its own; never called."""


def _own_index(device_type: str) -> int | None:
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or accelerator.type != device_type or not torch.accelerator.is_available():
        return None
    return torch.accelerator.current_device_index()


def parts(call: GraphCall) -> dict[str, str]:
    """Digests (16 hex digits, or 64 for what is large) by name of part. Equal in every process that has the same graph.

    Raises:
        Bypass: PyTorch cannot hash something in it.
    """
    try:
        details = _codecache.FxGraphHashDetails(call.gm, call.example_inputs, dict(call.options), call.inputs_to_check)
        pickler = _Pickler(call.gm, bool(details.user_defined_triton_source))
        found = {name: _digest(pickler.dumps(value)) for name, value in vars(details).items()}
        found["inputs_to_check"] = _digest(repr(list(call.inputs_to_check)).encode())
        # Inductor chooses tilings by the sizes behind symbolic ones: another rank's sizes could give other numbers.
        found["size_hints"] = repr(tracing.size_hints(call.example_inputs))
        found["donated_inputs"] = repr(tracing.donated_inputs())
    except _codecache.BypassFxGraphCache as reason:
        raise Bypass(Fallback.NOT_CACHEABLE, str(reason)) from reason
    found.update(_changed_config(pickler.dumps))
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _changed_config(dumps: Callable[[Any], bytes]) -> dict[str, str]:
    """Config entries that are not at their default, in words: the digest of the whole config is a part already, these are
    for ``explain``."""
    shown = {}
    for name, value in _config.save_config_portable(ignore_private_configs=False).items():
        entry = _config._config.get(name)
        if entry is None or entry.default == value:
            continue
        text = repr(value)
        shown[f"config.{name}"] = text if len(text) <= _READABLE else _digest(dumps(value))[:16]
    return shown
