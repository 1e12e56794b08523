"""Versions of what generates code in this process."""

import importlib.metadata
import platform

import torch
from torch._inductor import config as _config

from inductord.compiler.toolchain import cpu_identity, cxx_candidates, cxx_identity
from inductord.v1.compiler_pb2 import Toolchain


def describe(cxx_elsewhere: str) -> Toolchain:
    """The toolchain of this process. ``cxx_elsewhere`` stands in for the C++ compiler where this machine has none."""
    return Toolchain(
        torch=torch.__version__,
        python=".".join(platform.python_version_tuple()[:2]),
        cpu=cpu_identity(),
        cxx=cxx_identity(cxx_candidates(_config.cpp.cxx)) or cxx_elsewhere,
        triton=_triton_version(),
    )


def _triton_version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""
