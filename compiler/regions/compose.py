"""Compiled regions as one callable: a graph of many pieces costs autograd one function, and no wrapper per piece.

It runs a linked ``Program``. What is decided per call of the model is in here, all else was decided when the program was made.
"""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import torch

from inductord.compiler.adapter import autograd, calling
from inductord.compiler.regions.convention import Compiled, Layout
from inductord.compiler.regions.link import Linked, Shape, Tensors
from inductord.compiler.regions.program import Program


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """The compiled graphs of a region; ``backward`` is None when nothing in it is trained."""

    forward: Compiled
    backward: Compiled | None


class Calls:
    """One direction of all regions of a graph, by number. Once each has been called they are called directly, unless somebody
    watches. ``checked``: by region, the places of arguments that do not come from another region."""

    def __init__(self, graphs: Sequence[Compiled | None], checked: Mapping[int, frozenset[int]]) -> None:
        self._graphs = graphs
        self._checked = checked
        self._direct: calling.Direct | None = None
        self._were_called = False

    @contextlib.contextmanager
    def now(self, trusted: bool = True) -> Generator[Sequence[Compiled | None]]:
        """What to call. ``trusted``: whether what comes from other regions is as they left it."""
        if not self._were_called or not trusted or calling.watched():
            yield self._graphs
            self._were_called = True
            return
        if self._direct is None:
            self._direct = calling.directly(self._graphs, self._checked)
        with self._direct.around():
            yield self._direct.graphs


@dataclasses.dataclass(frozen=True, slots=True)
class Returned:
    """One value that the graph returns: output number ``index`` of the wiring, or input number ``index`` of the graph, or the
    constant ``value``."""

    kind: str
    index: int = 0
    value: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Composed:
    """``linked``: the program as functions. ``forward``, ``backward``: of the regions. ``constants``: values of the slots after
    the inputs. ``returned``: what the graph returns, in order. ``autocast``: whether autocast was on when it was traced.
    ``deterministic``: whether deterministic algorithms were asked for then."""

    program: Program
    linked: Linked
    forward: Calls
    backward: Calls
    constants: Sequence[Any]
    returned: Sequence[Returned]
    autocast: bool
    deterministic: bool


def callable_of(composed: Composed) -> Callable[..., Any]:
    """The composed graph: takes the graph's inputs, returns its outputs as a list."""
    program = composed.program
    run = _function(composed).apply if program.backward else functools.partial(_infer, composed)
    trained = tuple(program.trained)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def composed_graph(*inputs: Any) -> list[Any]:
        if program.noticed:
            torch.autograd.graph.increment_version([inputs[slot] for slot in program.noticed])
        given = inputs
        if program.backward:
            # A gradient that will never come must not make autograd walk on from here.
            given = tuple(
                value.detach() if not needed and _has_history(value) else value
                for value, needed in zip(inputs, trained, strict=True)
            )
        values = run(*given)
        return [
            values[each.index] if each.kind == "output" else inputs[each.index] if each.kind == "input" else each.value
            for each in composed.returned
        ]

    return composed_graph  # type: ignore[no-any-return]


def _has_history(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf


def _infer(composed: Composed, *inputs: Any) -> tuple[Any, ...]:
    with torch.no_grad():
        outputs, *_ = _forward(composed, inputs)
    return outputs


def _forward(composed: Composed, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
    with autograd.without_autocast(composed.autocast), composed.forward.now() as graphs:
        return composed.linked.forward(graphs, inputs, composed.constants)


def _function(composed: Composed) -> type[torch.autograd.Function]:
    program = composed.program
    fixed = [not differentiable for differentiable in program.differentiable]

    class ComposedGraph(torch.autograd.Function):
        """All regions of one graph."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            outputs, saved, ctx.symints, ctx.shapes = _forward(composed, inputs)
            ctx.trusted = autograd.saved_tensors_stay()
            ctx.save_for_backward(*map(autograd.savable, saved))
            outputs = tuple(map(autograd.no_view, outputs))
            autograd.end_forward(
                ctx, [each for each in itertools.compress(outputs, fixed) if isinstance(each, torch.Tensor)]
            )
            return outputs

        @staticmethod
        @torch.compiler.disable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *gradients: Any) -> Any:
            if not composed.deterministic and torch.are_deterministic_algorithms_enabled():
                raise RuntimeError(
                    "torch.use_deterministic_algorithms was turned on after this compiled graph ran forward; turn it on "
                    "before the model is called"
                )
            run = functools.partial(_backward, composed, ctx, gradients)
            if torch.is_grad_enabled():
                return _Once.apply(  # type: ignore[no-untyped-call]
                    run, torch.empty(0, requires_grad=True), *gradients
                )
            return run()

    return ComposedGraph


class _Once(torch.autograd.Function):
    """Keeps the gradients connected, so that whoever asks for their gradient is told."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[], tuple[Any, ...]], *_: Any) -> tuple[Any, ...]:
        return run()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")


def _backward(composed: Composed, ctx: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    again = autograd.backward_comes_again()
    saved: list[Any] = autograd.take_saved(ctx)
    with autograd.without_autocast(composed.autocast), composed.backward.now(ctx.trusted) as graphs:
        return composed.linked.backward(graphs, saved, ctx.symints, ctx.shapes, gradients, again)


def _laid_out(gradient: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The gradient in the memory layout that backward was compiled for."""
    if layout.size is None or layout.stride is None:
        return gradient.contiguous(memory_format=getattr(torch, layout.memory_format))
    if gradient.shape == layout.size and gradient.stride() == layout.stride:
        return gradient
    fitting = torch.empty_strided(layout.size, layout.stride, dtype=gradient.dtype, device=gradient.device)
    return fitting.copy_(gradient)


def _zero(shape: Shape, layout: Layout) -> torch.Tensor:
    size, dtype, device = shape
    return _laid_out(torch.zeros(size, dtype=dtype, device=device), layout)


def _shape(value: torch.Tensor) -> Shape:
    return value.shape, value.dtype, value.device


TENSORS = Tensors(_laid_out, _zero, _shape)
