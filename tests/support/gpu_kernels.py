"""Graphs that call Triton kernels of the user, those of ``tests/jobs/user_kernels.py`` or a text like it."""

import contextlib
import functools
import importlib.util
from pathlib import Path
from types import ModuleType
from unittest import mock

import torch
from support.gpu_graphs import accelerator, capture
from support.training import JOBS

from inductord.compiler.adapter import playing
from inductord.compiler.adapter.seam import GraphCall

SCRIPT = JOBS / "user_kernels.py"


def imported(path: Path) -> ModuleType:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def graph_of(module: ModuleType) -> GraphCall:
    """The inference graph of its ``run``, as it is on the CPU."""
    # Triton is asked for its target while the graph is traced; Dynamo had better ask nothing of a device.
    with contextlib.ExitStack() as stack:
        stack.enter_context(playing.described_by(accelerator(90), 0))
        for part in (torch.cuda, torch.accelerator):
            stack.enter_context(mock.patch.object(part, "is_available", return_value=False))
        return capture(module.run, torch.randn(300), backward=False, runs=False)[0]


@functools.cache
def kernels() -> ModuleType:
    """The module of the script."""
    return imported(SCRIPT)


@functools.cache
def graph() -> GraphCall:
    """The graph of the script."""
    return graph_of(kernels())
