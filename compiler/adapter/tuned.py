"""Where Inductor tunes a Triton kernel at its first launch, and how a choice that was made elsewhere is taken over.

``CachingAutotuner`` measures the configurations of a kernel (``autotune_to_one_config``) and may then look for better ones,
which it compiles (``_coordinate_descent_tuning``). Both are done by one rank; the others take its choice.
"""

import contextlib
import hashlib
import logging
import pickle
import tempfile
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import torch
from torch._inductor.runtime import triton_heuristics as _heuristics
from torch._inductor.runtime.runtime_utils import triton_config_to_hashable

from inductord.compiler.adapter import device
from inductord.compiler.adapter.kernels import launched_from_binary
from inductord.v1.tuning_pb2 import TuningRecord

log = logging.getLogger("inductord")

Choose = Callable[[str, str, Callable[[], TuningRecord]], TuningRecord]
"""Key, UUID of the device and a function that measures to the record that is to be used: ``tuning.Tuner.choose``."""

_lock = threading.Lock()
_installed = False


def install(choose: Choose) -> None:
    """Ask ``choose`` at every tuning of this process from now on. Once per process; later calls change nothing."""
    global _installed
    with _lock:
        if _installed:
            return
        kind = _heuristics.CachingAutotuner
        measure, descend = kind.autotune_to_one_config, kind._coordinate_descent_tuning

        def autotune_to_one_config(self: Any, *args: Any, **kwargs: Any) -> None:
            own: list[Any] = []

            def tune() -> TuningRecord:
                measure(self, *args, **kwargs)
                own.extend(self.launchers)
                return TuningRecord(choice=_words(self.launchers[0].config))

            record = choose(_key(self, "configurations"), uuid(self.device_props.index), tune)
            if own and _words(own[0].config) == record.choice:
                return
            _take_one(self, record, tune, own)

        def _coordinate_descent_tuning(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
            own: list[Any] = []

            def tune() -> TuningRecord:
                with _keeping_binaries(self) as binaries:
                    own.append(descend(self, launcher, *args, **kwargs))
                choice = _words(own[0].config)
                return TuningRecord(choice=choice, kernel=binaries.get(choice, b""))

            record = choose(_key(self, f"descent from {_words(launcher.config)}"), uuid(self.device_props.index), tune)
            if own and _words(own[0].config) == record.choice:
                return own[0]
            if record.choice == _words(launcher.config):
                launcher.config.found_by_coordesc = True
                return launcher
            try:
                return _launcher(self, record)
            except Exception as error:  # noqa: BLE001 - a record that is no use here is replaced by measuring
                log.info("inductord: a tuned kernel cannot be used, this rank tunes it: %s", error)
                if not own:
                    tune()
                return own[0]

        kind.autotune_to_one_config = autotune_to_one_config
        kind._coordinate_descent_tuning = _coordinate_descent_tuning
        _installed = True


def _take_one(kernel: Any, record: TuningRecord, tune: Callable[[], TuningRecord], own: list[Any]) -> None:
    chosen = [launcher for launcher in kernel.launchers if _words(launcher.config) == record.choice]
    if not chosen:
        # Another rank may hold a configuration that does not fit this device.
        if not own:
            tune()
        return
    kernel.launchers = chosen
    if kernel.save_cache_hook:
        kernel.save_cache_hook(chosen[0].config, 0, triton_cache_hash=chosen[0].cache_hash)


def _words(config: Any) -> str:
    return repr(triton_config_to_hashable(config))


def uuid(index: int) -> str:
    """That of a device of this rank, where PyTorch knows it; else its number."""
    return str(getattr(torch.cuda.get_device_properties(index), "uuid", index))


def _key(kernel: Any, step: str) -> str:
    meta = {name: value for name, value in kernel.triton_meta.items() if name != "device"}
    described = [
        step,
        kernel.fn.__name__,
        kernel.fn.src,
        kernel.size_hints,
        repr(kernel.heuristic_type),
        meta,
        kernel.inductor_meta,
        sorted(_words(launcher.config) for launcher in kernel.launchers),
    ]
    return choice_key(described, kernel.device_props.type.replace("hip", "cuda"))


def choice_key(described: list[Any], device_type: str) -> str:
    """SHA-256 of what decides a choice: what is chosen for, the device's model, versions. Nothing of one rank, and not which of
    its devices it is.

    Args:
        described: plain values, of which equal ones mean the same choice.
        device_type: that of this rank's accelerator.
    """
    whole = [*described, device.describe(device_type).identity, torch.__version__, torch.version.git_version]
    return hashlib.sha256(_text(whole).encode()).hexdigest()


def _text(value: Any) -> str:
    """Equal for equal values, in every process: without the order of sets and dictionaries."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{_text(name)}:{_text(entry)}" for name, entry in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(map(_text, value))) + ">"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    return repr(value)


@contextlib.contextmanager
def _keeping_binaries(kernel: Any) -> Generator[dict[str, bytes]]:
    """Collects what is compiled inside, ready to travel, by configuration. Before it is loaded: loading drops the binary."""
    found: dict[str, bytes] = {}
    compile_one = kernel._precompile_config

    def keep(config: Any, *args: Any, **kwargs: Any) -> Any:
        result = launched_from_binary(kernel, compile_one(config, *args, **kwargs))
        if isinstance(result, _heuristics.StaticTritonCompileResult):
            path = result.kernel.cubin_path
            result.kernel.cubin_raw, result.kernel.cubin_path = Path(path).read_bytes(), None
            found[_words(config)] = pickle.dumps(result)
            result.kernel.cubin_path = path
        return result

    kernel._precompile_config = keep
    try:
        yield found
    finally:
        del kernel._precompile_config


def _launcher(kernel: Any, record: TuningRecord) -> Any:
    """What the chosen configuration is launched with on this rank's device."""
    if not record.kernel:
        raise LookupError("the record holds no kernel")
    # Code of this user's jobs, from the daemon that also gives artifacts.
    result = pickle.loads(record.kernel)
    result.compile_meta["device"] = kernel.triton_meta["device"]
    # From a file of our own. Where PyTorch would put it another rank of the device may be writing it, and half a binary ends
    # the process that loads it.
    with tempfile.NamedTemporaryFile(suffix=".cubin") as binary:
        binary.write(result.kernel.cubin_raw)
        binary.flush()
        result.kernel.cubin_path = binary.name
        launcher = result.make_launcher()
    launcher.config.found_by_coordesc = True
    return launcher
