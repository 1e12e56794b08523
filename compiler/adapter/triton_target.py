"""What Triton compiles for on this rank, said without its driver.

PyTorch asks Triton for the name of its backend when it loads a compiled graph (``torch.utils._triton.triton_backend``). Triton
would make its driver for that, which builds a C extension: a rank that only loads needs no C compiler.
"""

import functools
import inspect
from typing import Any

import torch

_WARP = 32
"""Threads, on all CUDA devices; Triton's driver says the same constant."""


def install() -> None:
    """Answer from what PyTorch knows of the device, from now on. Where a driver has been made it is asked, as ever."""
    try:
        from torch.utils import _triton
        from triton.runtime import driver
    except ImportError:  # no Triton, and nobody who asks
        return
    by_driver = inspect.unwrap(_triton.triton_backend)  # what is remembered of it is ours to remember

    @functools.cache
    def triton_backend() -> Any:
        if driver._active is not None or not torch.cuda.is_available():
            return by_driver()
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import make_backend

        major, minor = torch.cuda.get_device_capability()
        return make_backend(GPUTarget("cuda", major * 10 + minor, _WARP))

    _triton.triton_backend = triton_backend
