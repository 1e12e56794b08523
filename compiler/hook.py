"""The door for unmodified scripts: PyTorch calls ``autoload`` at the end of ``import torch``.

It runs in every process that imports torch, whether or not anybody asked for inductord. So it must be cheap, must import
nothing heavy and must never raise: an exception here would make ``import torch`` itself fail.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

_COMPILE_FX = "torch._inductor.compile_fx"
_YES = frozenset({"1", "true", "yes", "on"})


def autoload() -> None:
    """Route every Inductor compile of this process through inductord, when ``INDUCTORD=1`` asks for it.

    Inductor itself is not imported here. The seam is set when the job first imports it.
    """
    if os.environ.get("INDUCTORD", "").strip().lower() not in _YES:
        return
    if _COMPILE_FX in sys.modules:
        _set_seam()
    else:
        sys.meta_path.insert(0, _AfterImport())


def _set_seam() -> None:
    # Imported here: at autoload time this would drag in Inductor.
    from inductord.compiler import routing

    routing.route_everything()


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls ``_set_seam`` once ``torch._inductor.compile_fx`` has been imported; finds no modules of its own."""

    def __init__(self) -> None:
        self._looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _COMPILE_FX or self._looking:
            return None
        self._looking = True  # the real finders are asked below, through the same meta path
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner  # inspect, pickle and friends see the module as it always was
        module.__loader__ = self._inner
        _set_seam()
