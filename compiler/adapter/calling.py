"""Calls of compiled graphs, many in a row, as a composed graph makes them.

A compiled graph protects itself against its caller: ``CompiledFxGraph.__call__`` (torch/_inductor/output_code.py) names it to a
profiler and ends accounts that the first call fills; the code that Inductor wrote asserts sizes and strides of every argument
and makes its device the current one (torch/_inductor/codegen/wrapper.py). For one graph that is little. A step of a composed
graph has a hundred calls and thousands of arguments, most of which another compiled graph has just made.
"""

import ast
import contextlib
import dataclasses
import functools
import re
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._inductor import debug as _debug
from torch._inductor import utils as _utils
from torch.autograd import profiler as _profiler

from inductord.compiler.regions.convention import Compiled

_CALL = "    def call(self, args):\n"
_AFTER_CALL = "\nrunner = "
_ENTERED = re.compile(r"torch\.cuda\._DeviceGuard\((\d+)\); torch\.cuda\.set_device\(\1\)")


@dataclasses.dataclass(frozen=True, slots=True)
class Direct:
    """``graphs``: to be called within ``around()``."""

    graphs: Sequence[Compiled | None]
    around: Callable[[], contextlib.AbstractContextManager[Any]]


def watched() -> bool:
    """Whether somebody wants to see each call."""
    return bool(_profiler._is_profiler_enabled or getattr(_debug, "RECORD_GRAPH_EXECUTION", False))


def directly(graphs: Sequence[Compiled | None], checked: Mapping[int, frozenset[int]]) -> Direct:
    """What compiled graphs that were called before run, without what protects them; whatever is no such graph is as it is.

    Args:
        graphs: by number. None stays None.
        checked: by number of the graph, the places of arguments whose sizes and strides are still asserted.
    """
    bodies = [_body(graph, checked.get(number, frozenset())) for number, graph in enumerate(graphs)]
    devices = {body.device for body in bodies if body and body.device}
    together = len(devices) == 1
    ready = [
        None if graph is None else _what_runs(graph, body.function(with_device=not together) if body else None)
        for graph, body in zip(graphs, bodies, strict=True)
    ]
    entering = functools.partial(torch.cuda._DeviceGuard, int(devices.pop())) if together else contextlib.nullcontext
    return Direct(ready, entering)


@dataclasses.dataclass(frozen=True, slots=True)
class _Body:
    """The function of a graph as Inductor wrote it, as a syntax tree. ``guard``: its statement that makes a device the
    current one for all work, ``device``: the number of that device; None and empty where there is no such statement."""

    runner: Any
    definition: ast.FunctionDef
    first_line: int
    guard: ast.With | None
    device: str

    def function(self, *, with_device: bool) -> Compiled:
        """As code, bound to its runner."""
        definition = self.definition
        if self.guard is not None and not with_device:
            at = definition.body.index(self.guard)
            definition.body[at : at + 1] = self.guard.body[1:]
        tree = ast.increment_lineno(ast.Module([definition], []), self.first_line - 1)
        written = type(self.runner).call
        namespace: dict[str, Any] = {}
        # The file name and the lines are those of Inductor's code, so that a traceback shows it.
        exec(compile(tree, written.__code__.co_filename, "exec"), written.__globals__, namespace)
        return types.MethodType(namespace["call"], self.runner)


def _body(graph: Compiled | None, checked: frozenset[int]) -> _Body | None:
    runner, source = getattr(graph, "compiled_fn_runner", None), getattr(graph, "source_code", None)
    if not source or not callable(getattr(runner, "call", None)):
        return None
    start = source.find(_CALL)
    end = source.find(_AFTER_CALL, start)
    if start < 0 or end < 0:  # Inductor writes it otherwise in this version
        return None
    tree = ast.parse(textwrap.dedent(source[start:end]))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    places = _places(definition)
    dropped = {name for name, place in places.items() if place not in checked}
    guard = next((each for each in definition.body if isinstance(each, ast.With)), None)
    # Asserted are all of them at the beginning, or each before it is used first (from torch 2.13 on).
    for block in (definition, guard) if guard else (definition,):
        block.body = [each for each in block.body if _asserted(each) not in dropped]
    device = ""
    if guard is not None:
        entered = _ENTERED.fullmatch("; ".join(map(ast.unparse, (*guard.items, guard.body[0]))))
        device = entered[1] if entered else ""
    return _Body(runner, definition, source.count("\n", 0, start) + 1, guard if device else None, device)


def _places(definition: ast.FunctionDef) -> dict[str, int]:
    """Of arguments, by name: they are unpacked first."""
    first = definition.body[0]
    if isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Tuple):
        return {name.id: place for place, name in enumerate(first.targets[0].elts) if isinstance(name, ast.Name)}
    return {}


def _asserted(statement: ast.stmt) -> str:
    """The name of the argument whose size and strides a statement asserts; results of operators have the operator's name."""
    match statement:
        case ast.Expr(
            ast.Call(
                ast.Name("assert_size_stride"),
                [ast.Name(argument), _, _] | [ast.Name(argument), _, _, ast.Constant("input")],
            )
        ):
            return argument
    return ""


def _what_runs(graph: Compiled, lean: Compiled | None) -> Compiled:
    """What ``graph`` runs, with ``lean`` in place of its function."""
    if getattr(graph, "_wrap_compiled_regions", False):
        return graph
    runs: Compiled | None = getattr(graph, "current_callable", None)
    if runs is None:
        return graph
    if lean is None:
        return runs
    plain: Any = graph
    if runs == plain.compiled_fn_runner.call:
        return lean
    if getattr(runs, "__qualname__", "") == f"{_utils.align_inputs_from_check_idxs.__qualname__}.<locals>.run":
        return _utils.align_inputs_from_check_idxs(lean, plain.inputs_to_check, plain.mutated_input_idxs)
    return runs
