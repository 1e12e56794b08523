"""The door for unmodified scripts: PyTorch calls ``autoload`` at the end of ``import torch``.

It runs in every process that imports torch, whether or not anybody asked for inductord. So it must be cheap, must import
nothing heavy and must never raise: an exception here would make ``import torch`` itself fail.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

_COMPILE_FX = "torch._inductor.compile_fx"
_DECOMPOSITIONS = "torch._inductor.decomposition"
_LOWERINGS = "torch._inductor.lowering"
_PROFILE = "torch._dynamo.pgo"
_YES = frozenset({"1", "true", "yes", "on"})


def autoload() -> None:
    """Route every Inductor compile of this process through inductord, when ``INDUCTORD=1`` asks for it.

    Inductor itself is not imported here. The seam is set when the job first imports it, or Dynamo first looks for its profile.
    Inductor's tables of decompositions and of lowerings are looked at before the job can change them.
    """
    if os.environ.get("INDUCTORD", "").strip().lower() not in _YES:
        return
    awaited = {}
    acts = {
        _DECOMPOSITIONS: _note_decompositions,
        _LOWERINGS: _note_lowerings,
        _COMPILE_FX: _set_seam,
        _PROFILE: _watch_profile,
    }
    for name, act in acts.items():
        if name in sys.modules:
            act()
        else:
            awaited[name] = act
    if awaited:
        sys.meta_path.insert(0, _AfterImport(awaited))


def _set_seam() -> None:
    # Imported here: at autoload time this would drag in Inductor.
    from inductord.compiler import routing

    routing.route_everything()


def _note_decompositions() -> None:
    _note("decomposed")


def _note_lowerings() -> None:
    _note("replaced_parts")


def _note(module: str) -> None:
    # What this version of PyTorch lacks is found again, and counted, when the seam is set.
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module(f"inductord.compiler.adapter.{module}")


def _watch_profile() -> None:
    from inductord.compiler.adapter import profile

    profile.before_it_is_read(sys.modules[_PROFILE], lambda: importlib.import_module(_COMPILE_FX))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls each of ``awaited`` once the module of this name has been imported; finds no modules of its own."""

    def __init__(self, awaited: Mapping[str, Callable[[], None]]) -> None:
        self._awaited = awaited
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._awaited or fullname in self._looking:
            return None
        self._looking.add(fullname)  # the real finders are asked below, through the same meta path
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._awaited[fullname])
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader, act: Callable[[], None]) -> None:
        self._inner = inner
        self._act = act

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner  # inspect, pickle and friends see the module as it always was
        module.__loader__ = self._inner
        self._act()
