"""A worker without GPU plays the rank's: every question that compiling asks about the device is answered from a description.

Inductor asks PyTorch, and Triton asks its driver, what device they generate code for. Inside ``described_by`` all of that is
answered here and nowhere else. No device is initialised, and no memory of one is touched.
"""

import contextlib
import importlib
from collections.abc import Callable, Generator, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from inductord.compiler.accelerator import Accelerator
from inductord.compiler.adapter import device, generators
from inductord.compiler.adapter.replacing import replaced


@contextlib.contextmanager
def described_by(accelerator: Accelerator | None, index: int = 0) -> Generator[None]:
    """Run the block as if this process had ``accelerator``, its own device being number ``index``; None changes nothing.

    Raises:
        device.NotDescribed: a description of a kind that cannot be played here, or for another build of PyTorch.
    """
    if accelerator is None:
        yield
        return
    if accelerator.type != "cuda" or not accelerator.runtime.startswith("cuda "):
        raise device.NotDescribed(f"{accelerator.type} ({accelerator.runtime}) cannot be played")
    if accelerator.runtime != f"cuda {torch.version.cuda}":
        raise device.NotDescribed(
            f"the rank's PyTorch is built for {accelerator.runtime}, this one for {torch.version.cuda}"
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(device.played(accelerator, index))
        # Beneath Python, PyTorch guards the current device of a process: by indexing a fake tensor, for one. Where none is, a
        # guard that does nothing takes the place of CUDA's, for good; fake tensors want it as well on machines without a GPU.
        torch._C._ensureCUDADeviceGuardSet()
        stack.enter_context(_forgetting())
        stack.enter_context(_triton_driver(accelerator, index))
        for target, answer in _cuda_answers(accelerator, index).items():
            stack.enter_context(replaced(target, answer))
        yield


def _cuda_answers(accelerator: Accelerator, index: int) -> Mapping[str, Any]:
    """Dotted name to what stands in its place. Every question that compiling puts to PyTorch about a CUDA device."""
    asked = SimpleNamespace(**accelerator.properties)
    capability = divmod(int(accelerator.arch), 10)
    count = max(accelerator.count, index + 1)
    interface = "torch._dynamo.device_interface.CudaInterface"

    def answer(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    def static(value: Any) -> Any:
        return staticmethod(answer(value))

    return {
        "torch.cuda.is_available": answer(True),
        "torch.cuda.device_count": answer(count),
        "torch.cuda.current_device": answer(index),
        "torch.cuda.get_device_properties": answer(asked),
        "torch.cuda.get_device_capability": answer(capability),
        "torch.cuda.get_device_name": answer(accelerator.name),
        "torch.cuda._lazy_init": answer(None),
        "torch.cuda._exchange_device": answer(index),
        "torch.cuda._maybe_exchange_device": answer(index),
        "torch.cuda.synchronize": answer(None),
        "torch.accelerator.is_available": answer(True),
        "torch.accelerator.current_accelerator": answer(torch.device("cuda")),
        "torch.accelerator.current_device_index": answer(index),
        "torch.accelerator.device_count": answer(count),
        f"{interface}.is_available": static(True),
        f"{interface}.device_count": static(count),
        f"{interface}.current_device": static(index),
        f"{interface}.get_device_properties": static(asked),
        f"{interface}.get_compute_capability": static(int(accelerator.arch)),
        f"{interface}.exchange_device": static(index),
        f"{interface}.maybe_exchange_device": static(index),
        f"{interface}.synchronize": static(None),
        f"{interface}.Worker.get_device_properties": static(asked),
        f"{interface}.Worker.current_device": static(index),
        # A fake tensor of a device makes its context, and so does a tensor that is made on one while there are fake ones;
        # random states are saved around a compile.
        "torch._subclasses.fake_tensor.FakeTensorMode.avoid_device_init": property(answer(True)),
        "torch._subclasses.fake_tensor.init_gpu_context": answer(None),
        "torch._dynamo.utils.preserve_rng_state": contextlib.nullcontext,
        # Asked for, from torch 2.14 on, where a graph is lowered that takes a generator.
        "torch._C._accelerator_getDefaultGenerator": lambda index: generators.standing_in(torch.device("cuda", index)),
        # The driver that Triton is to use is set already.
        "torch._inductor.runtime.triton_helpers.set_driver_to_gpu": answer(None),
    }


class _Driver:
    """What Triton asks of a driver when it only compiles."""

    binary_ext = "cubin"

    def __init__(self, accelerator: Accelerator, index: int) -> None:
        self._accelerator = accelerator
        self._index = index
        self.utils = SimpleNamespace(get_device_properties=self._triton_properties)

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", int(self._accelerator.arch), self._accelerator.properties.get("warp_size", 32))

    def get_current_device(self) -> int:
        return self._index

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self._index)

    def get_device_interface(self) -> Any:
        return torch.cuda

    @staticmethod
    def is_active() -> bool:
        return True

    def _triton_properties(self, _: int) -> dict[str, Any]:
        known = self._accelerator.properties
        return {
            "max_shared_mem": known.get("shared_memory_per_block_optin", 0),
            "max_num_regs": known.get("regs_per_multiprocessor", 0),
            "multiprocessor_count": known.get("multi_processor_count", 0),
            "warpSize": known.get("warp_size", 32),
        }


@contextlib.contextmanager
def _triton_driver(accelerator: Accelerator, index: int) -> Generator[None]:
    try:
        from triton.runtime import driver
    except ImportError:  # no Triton: no kernels of it, and nobody who asks
        yield
        return
    before = driver._active
    driver.set_active(_Driver(accelerator, index))
    try:
        yield
    finally:
        driver._active = before


# Functions that remember an answer about the device, by module.
_REMEMBERED: Mapping[str, tuple[str, ...]] = {
    "torch.utils._triton": (
        "_device_supports_tensor_descriptor", "_device_supports_tma", "has_triton_experimental_host_tma",
        "has_triton_tensor_descriptor_host_tma", "has_triton_tma", "has_triton_tma_device",
        "has_datacenter_blackwell_tma_device", "has_triton_stable_tma_api", "has_triton", "triton_backend",
        "triton_hash_with_backend",
    ),
    "torch._inductor.utils": (
        "get_gpu_type", "is_big_gpu", "get_max_num_sms", "using_b200", "get_device_tflops", "get_gpu_dram_gbps",
        "_triton_supported_fp8_dtypes", "_rocm_native_device_arch_name", "using_rocm_rdna3",
    ),
    "torch._inductor.comm_analysis": ("get_gpu_type", "_has_nvlink"),
    "torch._inductor.codecache": ("CacheBase.get_system", "CacheBase.get_local_cache_path"),
    "torch._inductor.runtime.hints": ("DeviceProperties.create",),
    "torch._inductor.kernel.mm": ("_is_sm7x_or_older_gpu",),
    "torch._inductor.codegen.cuda.cuda_env": ("get_cuda_arch", "is_datacenter_blackwell_arch"),
    "torch._inductor.select_algorithm": ("get_num_workers",),
    "torch._inductor.lookup_table.choices": ("LookupTableChoices._get_device_key",),
}  # fmt: skip


@contextlib.contextmanager
def _forgetting() -> Generator[None]:
    """What PyTorch remembers of a device is forgotten before another one is played, and when none is."""
    _forget()
    try:
        yield
    finally:
        _forget()


def _forget() -> None:
    for cached in _cached_functions():
        cached.cache_clear()
    from torch._dynamo import device_interface

    device_interface.caching_worker_device_properties.pop("cuda", None)
    device_interface.caching_worker_current_devices.pop("cuda", None)


def _cached_functions() -> Iterator[Any]:
    for module_name, names in _REMEMBERED.items():
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError:  # not in this version
            continue
        for name in names:
            found: Any = module
            for part in name.split("."):
                found = getattr(found, part, None)
            if hasattr(found, "cache_clear"):
                yield found
