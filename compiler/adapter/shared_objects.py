"""C++ kernel libraries: captured where they are built, supplied where they are loaded.

Inductor's generated wrapper hands C++ source to ``CppCodeCache.load_async``, which derives a path from the source and the
compiler's command line, builds the library if that path is absent, and loads it. A rank must not need a compiler even to
derive that path. So the libraries of an artifact are named by a digest of what the wrapper passes, and ``load_async`` is
answered from them: from the artifact while it is loaded, and later, when Inductor's own cache gives the same graph again
(it keeps graphs without their libraries), from what was left on disk.
"""

import contextlib
import contextvars
import ctypes
import dataclasses
import hashlib
import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._inductor import codecache as _codecache
from torch._inductor.runtime.cache_dir_utils import cache_dir as _inductor_cache_dir

from inductord.compiler.payload import Library
from inductord.compiler.shelf import Shelf
from inductord.compiler.toolchain import cpu_identity

log = logging.getLogger("inductord")

Loaded = ModuleType | ctypes.CDLL

_RECORDING: contextvars.ContextVar["Recorder | None"] = contextvars.ContextVar("inductord_recording", default=None)
_SUPPLY: contextvars.ContextVar[Mapping[str, Library] | None] = contextvars.ContextVar("inductord_supply", default=None)
_install_lock = threading.Lock()


class LibraryMissing(RuntimeError):
    """The wrapper asks for a C++ library that the artifact does not hold."""


def source_digest(cache: str, main_code: str, device_type: str, extra_flags: tuple[str, ...], kernel_code: str) -> str:
    """SHA-256 over what the generated wrapper passes, and over the CPU and torch that the library was built for. Equal on
    the machine that built it and the one that loads it."""
    described = [cache, main_code, device_type, list(extra_flags), kernel_code, cpu_identity(), torch.__version__]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


@dataclasses.dataclass(slots=True)
class Recorder:
    """Collects, on the worker, the libraries that one compile asked for."""

    loaders: dict[str, Callable[[], Loaded]] = dataclasses.field(default_factory=dict)

    def libraries(self) -> dict[str, Library]:
        """Each library by source digest. Waits for those still being built.

        Raises:
            OSError: the file of one is gone.
        """
        return {digest: _read(load()) for digest, load in self.loaders.items()}


def _read(loaded: Loaded) -> Library:
    name = loaded.__file__ if isinstance(loaded, ModuleType) else loaded._name
    if not name:
        raise LibraryMissing(f"a C++ library without a file: {loaded!r}")
    path = Path(name)
    folder = Path(_inductor_cache_dir())
    return Library(path.read_bytes(), str(path.relative_to(folder)) if path.is_relative_to(folder) else "")


def install() -> None:
    """Let ``load_async`` be answered from artifacts. Once per process; later calls change nothing."""
    cache: Any = _codecache.CppCodeCache
    with _install_lock:
        original = cache.load_async.__func__
        if getattr(original, "answered_by_inductord", False):
            return

        def load_async(
            cls: Any,
            main_code: str,
            device_type: str = "cpu",
            submit_fn: Any = None,
            extra_flags: Any = (),
            *args: Any,
            **kwargs: Any,
        ) -> Callable[[], Loaded]:
            kernel_code = kwargs.get("optimized_code", args[0] if args else None) or ""
            digest = source_digest(cls.__name__, main_code, device_type, tuple(extra_flags), kernel_code)
            if (answer := _answer(cls, digest)) is not None:
                return answer
            get_loaded: Callable[[], Loaded] = original(
                cls, main_code, device_type, submit_fn, extra_flags, *args, **kwargs
            )
            if (recorder := _RECORDING.get()) is not None:
                recorder.loaders[digest] = get_loaded
            return get_loaded

        load_async.answered_by_inductord = True  # type: ignore[attr-defined]
        cache.load_async = classmethod(load_async)


def _answer(cache: Any, digest: str) -> Callable[[], Loaded] | None:
    if _RECORDING.get() is not None:
        return None
    supply, shelf = _SUPPLY.get(), _shelf()
    if supply is None:
        path = shelf.find(digest)
        if path is None:
            return None
        return lambda: cache._load_library(str(path), path.stem)
    library = supply.get(digest)
    if library is None:
        raise LibraryMissing(f"no library {digest[:12]} among the {len(supply)} of the artifact")
    loaded = _load(cache, shelf, digest, library)
    return lambda: loaded


def _load(cache: Any, shelf: Shelf, digest: str, library: Library) -> Loaded:
    try:
        path = shelf.put(digest, library)
        loaded: Loaded = cache._load_library(str(path), path.stem)
    except (OSError, ImportError) as error:  # an extension module that cannot be mapped is an ImportError
        log.info("inductord: a kernel library is mapped from memory, since %s", error)
        loaded = _load_from_memory(cache, library.content)
    return loaded


def _load_from_memory(cache: Any, content: bytes) -> Loaded:
    """Where no folder lets code be mapped (noexec, read-only, full), an anonymous file in memory does."""
    name = hashlib.sha256(content).hexdigest()
    descriptor = os.memfd_create(f"inductord-{name[:12]}")
    with open(descriptor, "wb") as file, tempfile.TemporaryDirectory(prefix="inductord-") as folder:
        file.write(content)
        file.flush()
        # Python knows an extension module by the end of its name. Where the link lies does not matter to the kernel.
        link = Path(folder) / f"{name}.so"
        link.symlink_to(f"/proc/self/fd/{descriptor}")
        loaded: Loaded = cache._load_library(str(link), name)
    return loaded


def keep(libraries: Mapping[str, Library]) -> None:
    """Leave libraries on disk for a graph that Inductor will find in its own cache.

    Raises:
        OSError: the folder cannot be written.
    """
    install()
    shelf = _shelf()
    for digest, library in libraries.items():
        shelf.put(digest, library)


def _shelf() -> Shelf:
    # Asked each time: with fresh_inductor_cache the folder changes while the process runs.
    return Shelf(Path(_inductor_cache_dir()))


@contextlib.contextmanager
def recording() -> Generator[Recorder]:
    """Collect the libraries of the compile inside."""
    install()
    recorder = Recorder()
    token = _RECORDING.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDING.reset(token)


@contextlib.contextmanager
def supplying(libraries: Mapping[str, Library]) -> Generator[None]:
    """Answer every request for a C++ library inside from ``libraries``, by source digest."""
    install()
    token = _SUPPLY.set(libraries)
    try:
        yield
    finally:
        _SUPPLY.reset(token)
