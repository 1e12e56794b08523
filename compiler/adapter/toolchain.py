"""Versions of what generates code in this process."""

import importlib.metadata
import platform

import torch
from torch._inductor import config as _config

from inductord.compiler.adapter.placement import CPU_ONLY, Placement
from inductord.compiler.toolchain import cpu_identity, cxx_candidates, cxx_identity
from inductord.v1.compiler_pb2 import Toolchain


def describe(cxx_elsewhere: str, where: Placement = CPU_ONLY) -> Toolchain:
    """The toolchain of this process for a graph that runs at ``where``. ``cxx_elsewhere`` stands in for the C++ compiler where
    this machine has none. CPU and C++ compiler are left out where nothing runs on the CPU: Triton brings its own compiler."""
    return Toolchain(
        torch=torch.__version__,
        python=".".join(platform.python_version_tuple()[:2]),
        cpu=cpu_identity() if where.cpu else "",
        cxx=(cxx_identity(cxx_candidates(_config.cpp.cxx)) or cxx_elsewhere) if where.cpu else "",
        triton=_triton_version(),
        accelerator=where.accelerator.identity if where.accelerator else "",
    )


def _triton_version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""
