"""Process-wide settings that code generation reads: described on the rank, applied on the worker, part of every key.

Inductor's own configuration is not here; it travels with the graph (``wire``).
"""

import contextlib
import json
from collections.abc import Callable, Generator
from typing import Any

import torch
from torch._functorch import config as _functorch_config

from inductord.compiler.adapter import triton_settings

Ambient = dict[str, Any]
"""Setting to a JSON value."""

_Accessors = tuple[Callable[[], Any], Callable[[Any], None]]


def _attribute(owner: Any, name: str) -> _Accessors:
    return (lambda: getattr(owner, name)), (lambda value: setattr(owner, name, value))


def _get_deterministic() -> list[bool]:
    return [torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()]


def _set_deterministic(value: list[bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _set_default_dtype(name: str) -> None:
    torch.set_default_dtype(getattr(torch, name))


def _get_matmul_precision() -> str | None:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        # Contradicted by what was set for single backends; PyTorch then does not say. Those settings have their own entries.
        return None


def _set_matmul_precision(value: str | None) -> None:
    if value is not None:
        torch.set_float32_matmul_precision(value)


def _get_default_dtype() -> str:
    return str(torch.get_default_dtype()).removeprefix("torch.")


def _get_compile_on_one_rank() -> bool:
    # From torch 2.14 on: code that asks for its device when it runs.
    return bool(getattr(torch.compiler.config, "compile_on_one_rank", False))


def _set_compile_on_one_rank(value: bool) -> None:
    torch.compiler.config.compile_on_one_rank = value  # type: ignore[attr-defined]


_SETTINGS: dict[str, _Accessors] = {
    "default_dtype": (_get_default_dtype, _set_default_dtype),
    "deterministic": (_get_deterministic, _set_deterministic),
    "fill_uninitialized_memory": _attribute(torch.utils.deterministic, "fill_uninitialized_memory"),
    # C++ kernels are generated for a number of threads (torch._inductor.codegen.cpp.parallel_num_threads).
    "num_threads": (torch.get_num_threads, torch.set_num_threads),
    # This one also writes the next two, so it comes before them. They are applied in the order of this table.
    "float32_matmul_precision": (_get_matmul_precision, _set_matmul_precision),
    "cuda_matmul_fp32_precision": _attribute(torch.backends.cuda.matmul, "fp32_precision"),
    "mkldnn_matmul_fp32_precision": _attribute(torch.backends.mkldnn.matmul, "fp32_precision"),  # type: ignore[attr-defined]
    "cuda_matmul_fp16_reduced": _attribute(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    "cuda_matmul_bf16_reduced": _attribute(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    "mkldnn_enabled": _attribute(torch.backends.mkldnn, "enabled"),
    "mkldnn_deterministic": _attribute(torch.backends.mkldnn, "deterministic"),
    "cudnn_enabled": _attribute(torch.backends.cudnn, "enabled"),
    "cudnn_benchmark": _attribute(torch.backends.cudnn, "benchmark"),
    "cudnn_deterministic": _attribute(torch.backends.cudnn, "deterministic"),
    "compile_on_one_rank": (_get_compile_on_one_rank, _set_compile_on_one_rank),
    "functionalize_rng_ops": _attribute(_functorch_config, "functionalize_rng_ops"),
}


_TRITON = "triton"


def describe() -> Ambient:
    """The settings of this process, as values that survive JSON."""
    found = _described()
    if settings := triton_settings.describe():
        found[_TRITON] = settings
    return found


def _described() -> Ambient:
    return {name: _json_value(get()) for name, (get, _) in _SETTINGS.items()}


def _json_value(value: Any) -> Any:
    return json.loads(json.dumps(value))


@contextlib.contextmanager
def applied(ambient: Ambient) -> Generator[None]:
    """Run the block under the settings of another process, then return to those of this one.

    Raises:
        KeyError: a setting that this version does not know; the two sides differ.
    """
    if unknown := ambient.keys() - _SETTINGS.keys() - {_TRITON}:
        raise KeyError(f"unknown process settings: {', '.join(sorted(unknown))}")
    before = _described()
    with triton_settings.applied(ambient.get(_TRITON, {})):
        try:
            _set(ambient)
            yield
        finally:
            _set(before)


def _set(ambient: Ambient) -> None:
    for name, (get, set_) in _SETTINGS.items():
        # Setting what is set already is not free of effects: some setters also write their neighbours.
        if name in ambient and _json_value(get()) != ambient[name]:
            set_(ambient[name])
