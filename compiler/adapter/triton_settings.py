"""What Triton is told by the environment of a process: described on the rank, applied on the worker, part of every key.

Files that Triton is told to use instead of its own do not travel. Their content is described, so that a worker without them
makes another key.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
from collections.abc import Generator
from pathlib import Path

import torch
from torch._inductor import async_compile as _async_compile
from torch._inductor import codecache as _codecache
from torch._inductor import config as _config
from torch._inductor.runtime import compile_tasks as _compile_tasks

from inductord.compiler import triton_variables

_LIBDEVICE = "TRITON_LIBDEVICE_PATH"
_PYTORCHS_PTXAS = Path(torch.__file__).with_name("bin") / "ptxas"


def describe() -> dict[str, str]:
    """Variables and their values, and digests of files that are not Triton's or PyTorch's own by the variable that names them;
    empty for most processes."""
    found = triton_variables.deciding(os.environ) | _other_tools()
    if _wants_the_toolkits_libdevice():
        file = _toolkits_libdevice()
        found["libdevice"] = _digest(file)
        # Inductor sets it, when it first compiles a kernel.
        if os.environ.get(_LIBDEVICE) == file:
            found.pop(_LIBDEVICE, None)
    return found


@contextlib.contextmanager
def applied(settings: dict[str, str]) -> Generator[None]:
    """Run the block with these variables, and no other that decides, in the environment."""
    before = triton_variables.deciding(os.environ)
    try:
        _set(triton_variables.deciding(settings))
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str]) -> None:
    if variables == triton_variables.deciding(os.environ):
        return
    # A kernel that has this text was compiled as others wanted it.
    _codecache.PyCodeCache.cache_clear()
    _async_compile.CompiledTritonKernels.cache_clear()
    for name in triton_variables.DECIDING:
        if name in variables:
            os.environ[name] = variables[name]
        else:
            os.environ.pop(name, None)


def _other_tools() -> dict[str, str]:
    found = {}
    for name in triton_variables.TOOLS:
        path = os.environ.get(name)
        # Inductor sets this one itself.
        if path and path != str(_PYTORCHS_PTXAS) and (digest := _digest(path)) != _own(name):
            found[name] = digest
    return found


def _own(name: str) -> str | None:
    """Digest of the file that would be used if nothing were said; None without Triton."""
    files = {
        "TRITON_PTXAS_PATH": "bin/ptxas",
        "TRITON_PTXAS_BLACKWELL_PATH": "bin/ptxas-blackwell",
        _LIBDEVICE: "lib/libdevice.10.bc",
    }
    if name == "TRITON_PTXAS_PATH" and _PYTORCHS_PTXAS.exists():
        return _digest(str(_PYTORCHS_PTXAS))
    triton = importlib.util.find_spec("triton")
    if triton is None or triton.origin is None:
        return None
    return _digest(str(Path(triton.origin).with_name("backends") / "nvidia" / files[name]))


def _wants_the_toolkits_libdevice() -> bool:
    """From torch 2.14 on, settings of Inductor have it used where a CUDA toolkit is installed."""
    if torch.version.cuda is None or not hasattr(_compile_tasks, "_set_triton_libdevice_path"):
        return False
    numerics = getattr(_config, "eager_numerics", None)
    return bool(getattr(numerics, "use_pytorch_libdevice", False) or _config.emulate_precision_casts)


def _toolkits_libdevice() -> str:
    """Its path; one where nothing is if there is no toolkit."""
    from torch.utils.cpp_extension import CUDA_HOME

    return str(Path(CUDA_HOME or "/nonexistent", "nvvm", "libdevice", "libdevice.10.bc"))


@functools.cache
def _digest(path: str) -> str:
    """Of a file's content; empty where there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError:
        return ""
