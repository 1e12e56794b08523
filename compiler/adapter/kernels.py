"""Triton kernels: finished on a worker that cannot load them.

``CachingAutotuner`` (torch/_inductor/runtime/triton_heuristics.py) compiles each configuration of a kernel, loads the
binaries, and where a reduction uses too many registers compiles a further configuration. A worker loads nothing; the number
of registers is read from the binary instead, so that the further configuration is compiled here and not by every rank.
"""

import contextlib
import copy
import dataclasses
import os
import pickle
from collections.abc import Generator
from pathlib import Path
from typing import Any

from torch._inductor.runtime.cache_dir_utils import triton_cache_dir
from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key
from torch._inductor.triton_bundler import TritonBundler

from inductord.compiler import cubin
from inductord.compiler.adapter.replacing import replaced

_AUTOTUNER = "torch._inductor.runtime.triton_heuristics.CachingAutotuner"


@contextlib.contextmanager
def compiled_only() -> Generator[None]:
    """Kernels compiled inside are not loaded on a device."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    compile_all, scale = CachingAutotuner._precompile_worker, CachingAutotuner._dynamic_scale_rblock

    def compile_with_scaled(self: Any) -> None:
        compile_all(self)
        _tell_registers(self.compile_results)
        # Inductor does this once the kernels are loaded; by then they would have been put into the bundle.
        scale(self)

    with (
        replaced(f"{_AUTOTUNER}._precompile_worker", compile_with_scaled),
        replaced(f"{_AUTOTUNER}._make_launchers", _nothing),
        replaced(f"{_AUTOTUNER}._dynamic_scale_rblock", _nothing),
    ):
        yield


def _nothing(self: Any) -> None:
    """Only a rank has a device to load a kernel on."""


def _tell_registers(results: list[Any]) -> None:
    for result in results:
        kernel = result.kernel
        if getattr(kernel, "n_regs", None) is None and (content := _binary(kernel)) is not None:
            kernel.n_regs = cubin.registers(content)


def _binary(kernel: Any) -> bytes | None:
    path = getattr(kernel, "cubin_path", None)  # of a kernel that is launched statically
    if path:
        return Path(path).read_bytes()
    content: bytes | None = getattr(kernel, "asm", {}).get("cubin")
    return content


@contextlib.contextmanager
def launched_from_binaries() -> Generator[None]:
    """Kernels compiled inside are launched from their binary alone, those with long names too. Inductor looks for a binary
    under the whole name of its kernel, does not find one whose name is long, and then lets Triton launch it, which needs a C
    compiler for that in every rank."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    compile_all = CachingAutotuner._precompile_worker

    def compile_and_find(self: Any) -> None:
        compile_all(self)
        # Not where a kernel is compiled: that may be a process of Inductor's own.
        self.compile_results = [launched_from_binary(self, result) for result in self.compile_results]

    with replaced(f"{_AUTOTUNER}._precompile_worker", compile_and_find):
        yield


def launched_from_binary(compiled: Any, result: Any) -> Any:
    """What one configuration of a kernel, an autotuner's, was compiled to, to be launched from its binary alone if its name is
    all that kept Inductor from that; else as it is."""
    from torch._inductor.runtime.triton_heuristics import StaticTritonCompileResult

    if isinstance(result, StaticTritonCompileResult) or not _name_whole(result.kernel, compiled.triton_meta):
        return result
    kernel = StaticTritonCompileResult.can_statically_launch(
        result.kernel, compiled.inductor_meta, compiled.triton_meta, compiled.heuristic_type
    )
    if kernel is None:
        return result
    return StaticTritonCompileResult(kernel, result.config, result.compile_meta, result.inductor_meta)


# So much of a kernel's name Triton keeps in the names of its files (triton/compiler/compiler.py).
_KEPT_OF_NAMES = 150


def _name_whole(kernel: Any, triton_meta: Any) -> bool:
    """Whether a binary whose name was cut lies under the whole name of its kernel now."""
    name = kernel.src.fn.__name__
    if len(name) <= _KEPT_OF_NAMES:
        return False
    folder = Path(triton_cache_dir(triton_meta.get("device", 0)), triton_hash_to_path_key(kernel.hash))
    for suffix in _LAUNCHED_FROM:
        whole = folder / f"{name}{suffix}"
        try:
            os.link(folder / f"{name[:_KEPT_OF_NAMES]}{suffix}", whole)
        except FileExistsError:  # another process did it
            return True
        except (
            OSError
        ):  # no binary of that kind, or the name is too long for a file: it is launched as without inductord
            continue
        return True
    return False


_LAUNCHED_FROM = (".cubin", ".hsaco", ".zebin")
_ABOUT = ".json"
_INDEX = "__grp__"
"""Triton finds what it compiled by this file. Without it, Triton would compile anew what it finds incomplete."""


def slim(bundle: Any) -> Any:
    """A Triton bundle without what no rank reads: where a kernel is launched from its binary alone, its intermediate forms,
    which are nine tenths of the bytes."""
    launched = {
        triton_hash_to_path_key(result.kernel.hash)
        for static in bundle.static_autotuners
        for result in static.kernel.compile_results
    }
    kept = [
        dataclasses.replace(kernel, artifacts=[file for file in kernel.artifacts if _is_read(file.filename)])
        if kernel.kernel_hash in launched
        else kernel
        for kernel in bundle.kernel_artifacts
    ]
    return dataclasses.replace(bundle, kernel_artifacts=kept)


def _is_read(name: str) -> bool:
    return name.endswith(_LAUNCHED_FROM) or (name.endswith(_ABOUT) and not name.startswith(_INDEX))


def collect_delivered(bundle: Any) -> None:
    """Where Inductor collects kernels for its own caches of graphs, let it have those of a graph that comes finished: else a
    start from those caches would compile them. Call it before the graph is loaded."""
    if bundle is None or TritonBundler._entries is None:
        return
    for kernel in bundle.kernel_artifacts:
        TritonBundler.put(kernel.kernel_hash, kernel.device)
    TritonBundler._static_autotuners.extend(copy.deepcopy(bundle.static_autotuners))


_COLLECTED = ("_entries", "_static_autotuners", "_winners")


def bundles() -> bool:
    """Whether Inductor's configuration lets it collect kernels."""
    return bool(TritonBundler.is_enabled())


@contextlib.contextmanager
def bundled() -> Generator[list[Any]]:
    """Gives, when it ends, one Triton bundle of what was compiled inside. Inductor, which may be collecting for its own cache,
    finds what it would have found."""
    found: list[Any] = []
    if idle := TritonBundler._entries is None:
        TritonBundler.begin_compile()
    try:
        yield found
        collected = {name: getattr(TritonBundler, name) for name in _COLLECTED if hasattr(TritonBundler, name)}
        bundle, _ = TritonBundler.collect()
        # What is shipped is changed on its way; Inductor's own stays as it is.
        found.append(pickle.loads(pickle.dumps(bundle)))
        if not idle:
            for name, value in collected.items():
                setattr(TritonBundler, name, value)
    finally:
        if idle:
            TritonBundler.end_compile()
