"""What Triton's driver would say on this rank, said without it.

Triton makes its driver when it is first asked for something, and builds a C extension for that: a rank that only loads needs
no C compiler. PyTorch asks before and while a graph is loaded: for the name of the backend (``torch.utils._triton``), and for
the device's speed, to decide whether padding a product of matrices pays (``torch._inductor.fx_passes.pad_mm``). There it takes
a failure for "perhaps", and measures: a rank without a compiler would get other graphs than the rest of its job.
"""

import contextlib
import functools
import inspect
import subprocess
from collections.abc import Callable, Generator
from typing import Any

import torch

_WARP = 32
"""Threads, on all CUDA devices; Triton's driver says the same constant."""

_KNOWN = {
    "multiprocessor_count": "multi_processor_count",
    "mem_clock_rate": "memory_clock_rate",
    "mem_bus_width": "memory_bus_width",
    "sm_clock_rate": "clock_rate",
}
"""Names of device properties in Triton and in PyTorch. Rates are in kHz in both, the width is in bits."""


def choose_assembler() -> None:
    """Have Triton use the ptxas of PyTorch's package, where that has one, from now on. Inductor sees to it when it first
    compiles a kernel. By then Triton may have noted the version of its own ptxas, for as long as the process lives, and files
    binaries under names by which other processes do not find them."""
    from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path

    _set_triton_ptxas_path()


def install() -> None:
    """Answer from what PyTorch knows of the device, from now on. Where a driver has been made it is asked, as ever."""
    choose_assembler()
    try:
        from torch._inductor import utils
        from torch.utils import _triton
    except ImportError:  # no Triton, and nobody who asks
        return
    if not _triton.has_triton_package():
        return
    backends: Any = _triton
    backends.triton_backend = _answered(backends.triton_backend, _backend)
    speeds: Any = utils
    speeds.get_gpu_dram_gbps = _answered(speeds.get_gpu_dram_gbps)
    speeds.get_device_tflops = _answered(speeds.get_device_tflops)
    internal: Any = torch._utils_internal
    internal.max_clock_rate = _clock_rate(internal.max_clock_rate)


def _answered(ask: Callable[..., Any], answer: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """``ask``, where need be with a stand-in for the driver or, if there is one, by ``answer``. Remembers what was said."""
    asked = inspect.unwrap(ask)  # what is remembered of it is ours to remember

    def answered(*args: Any) -> Any:
        if _driver_is_made() or not torch.cuda.is_available():
            return asked(*args)
        if answer is not None:
            return answer(*args)
        with _stand_in():
            return asked(*args)

    return functools.cache(answered)


def _driver_is_made() -> bool:
    from triton.runtime import driver

    return driver._active is not None


def _backend() -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    major, minor = torch.cuda.get_device_capability()
    return make_backend(GPUTarget("cuda", major * 10 + minor, _WARP))


def _clock_rate(by_program: Callable[[], Any]) -> Callable[[], Any]:
    """Of the multiprocessors, in MHz, from ``nvidia-smi`` as ever; where that cannot be run, from PyTorch."""

    def max_clock_rate() -> Any:
        try:
            return by_program()
        except (OSError, ImportError, subprocess.SubprocessError):  # newer Triton tries pynvml after the program
            rate = getattr(torch.cuda.get_device_properties(), "clock_rate", 0)
            if not rate:
                raise
            return rate / 1e3

    return max_clock_rate


@contextlib.contextmanager
def _stand_in() -> Generator[None]:
    from triton.runtime import driver

    ours = _Driver()
    driver._active = ours
    try:
        yield
    finally:
        if driver._active is ours:
            driver._active = None


class _Driver:
    """Says what PyTorch knows. Whoever asks for more meanwhile, another thread perhaps, gets it of the driver itself."""

    def __init__(self) -> None:
        self.utils = _Utils()

    def get_device_interface(self) -> Any:
        return torch.cuda

    def __getattr__(self, name: str) -> Any:
        return getattr(_made(), name)


class _Utils:
    def get_device_properties(self, index: int) -> dict[str, Any]:
        given = torch.cuda.get_device_properties(index)
        known = {name: getattr(given, its_name, None) for name, its_name in _KNOWN.items()}
        return _Properties(index, {name: value for name, value in known.items() if value})

    def __getattr__(self, name: str) -> Any:
        return getattr(_made().utils, name)


class _Properties(dict[str, Any]):
    def __init__(self, index: int, known: dict[str, Any]) -> None:
        super().__init__(known)
        self._index = index

    def __missing__(self, name: str) -> Any:
        return _made().utils.get_device_properties(self._index)[name]


def _made() -> Any:
    from triton.runtime import driver

    return driver.default
