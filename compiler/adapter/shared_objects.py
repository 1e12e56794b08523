"""C++ kernel libraries: captured where they are built, supplied where they are loaded.

Inductor's generated wrapper hands C++ source to ``CppCodeCache.load_async``, which derives a path from the source and the
compiler's command line, builds the library if that path is absent, and loads it. A rank must not need a compiler even to
derive that path. So the libraries of an artifact are named by a digest of what the wrapper passes, and while the artifact
is loaded, ``load_async`` is answered from it.
"""

import contextlib
import contextvars
import ctypes
import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch._inductor import codecache as _codecache

Library = ModuleType | ctypes.CDLL

_RECORDING: contextvars.ContextVar["Recorder | None"] = contextvars.ContextVar("inductord_recording", default=None)
_SUPPLY: contextvars.ContextVar["Supply | None"] = contextvars.ContextVar("inductord_supply", default=None)


class LibraryMissing(RuntimeError):
    """The wrapper asks for a C++ library that the artifact does not hold."""


def source_digest(cache: str, main_code: str, device_type: str, extra_flags: tuple[str, ...], kernel_code: str) -> str:
    """SHA-256 over what the generated wrapper passes; equal on the machine that built and the one that loads."""
    described = json.dumps([cache, main_code, device_type, list(extra_flags), kernel_code])
    return hashlib.sha256(described.encode()).hexdigest()


@dataclasses.dataclass(slots=True)
class Recorder:
    """Collects, on the worker, the libraries that one compile asked for: source digest to a function giving the library."""

    loaders: dict[str, Callable[[], Library]] = dataclasses.field(default_factory=dict)

    def contents(self) -> dict[str, bytes]:
        """Bytes of each library, by source digest. Waits for those still being built."""
        return {digest: _path_of(load()).read_bytes() for digest, load in self.loaders.items()}


def _path_of(library: Library) -> Path:
    path = library.__file__ if isinstance(library, ModuleType) else library._name
    if not path:
        raise LibraryMissing(f"a C++ library without a file: {library!r}")
    return Path(path)


@dataclasses.dataclass(frozen=True, slots=True)
class Supply:
    """The libraries of one artifact, on the rank: bytes by source digest, put into files below ``folder`` when loaded."""

    contents: Mapping[str, bytes]
    folder: Path

    def load(self, cache: Any, digest: str) -> Library:
        """The library with that source digest.

        Raises:
            LibraryMissing: the artifact does not hold it.
            OSError, ImportError: it cannot be written or mapped, e.g. on a folder mounted noexec.
        """
        content = self.contents.get(digest)
        if content is None:
            raise LibraryMissing(f"no library {digest[:12]} among the {len(self.contents)} of the artifact")
        # Named by its own content: another library built from the same source never takes its place.
        name = hashlib.sha256(content).hexdigest()
        try:
            path = self.folder / name[:2] / f"{name}.so"
            _write_once(path, content)
            library: Library = cache._load_library(str(path), name)
        except (OSError, ImportError):  # an extension module that cannot be mapped is an ImportError
            library = _load_from_memory(cache, name, content)
        return library


def _write_once(path: Path, content: bytes) -> None:
    if path.exists() and path.stat().st_size == len(content) and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Ranks of one node do this side by side: each writes its own file, the last rename wins, all hold the same bytes.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _load_from_memory(cache: Any, name: str, content: bytes) -> Library:
    """Where no folder lets code be mapped (noexec, read-only, full), an anonymous file in memory does."""
    descriptor = os.memfd_create(f"inductord-{name[:12]}")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    # Left open: the loader knows libraries by path, and a number used again would give it the earlier one.
    library: Library = cache._load_library(f"/proc/self/fd/{descriptor}", name)
    return library


def _install() -> None:
    original = _codecache.CppCodeCache.load_async.__func__

    def load_async(
        cls: Any,
        main_code: str,
        device_type: str = "cpu",
        submit_fn: Any = None,
        extra_flags: Any = (),
        *args: Any,
        **kw: Any,
    ) -> Callable[[], Library]:
        recording, supply = _RECORDING.get(), _SUPPLY.get()
        if recording is None and supply is None:
            return original(cls, main_code, device_type, submit_fn, extra_flags, *args, **kw)
        kernel_code = kw.get("optimized_code", args[0] if args else None) or ""
        digest = source_digest(cls.__name__, main_code, device_type, tuple(extra_flags), kernel_code)
        if supply is not None:
            library = supply.load(cls, digest)
            return lambda: library
        get_library: Callable[[], Library] = original(cls, main_code, device_type, submit_fn, extra_flags, *args, **kw)
        assert recording is not None
        recording.loaders[digest] = get_library
        return get_library

    _codecache.CppCodeCache.load_async = classmethod(load_async)


_install()


@contextlib.contextmanager
def recording() -> Generator[Recorder]:
    """Collect the libraries of the compile inside."""
    recorder = Recorder()
    token = _RECORDING.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDING.reset(token)


@contextlib.contextmanager
def supplying(contents: Mapping[str, bytes], folder: Path) -> Generator[None]:
    """Answer every request for a C++ library inside from ``contents``."""
    token = _SUPPLY.set(Supply(contents, folder))
    try:
        yield
    finally:
        _SUPPLY.reset(token)
