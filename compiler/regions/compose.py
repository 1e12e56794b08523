"""Compiled regions as one callable: a graph of many pieces costs autograd one function, and no wrapper per piece.

It runs a ``Program``. What is decided per call of the model is in here, all else was decided when the program was made.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductord.compiler.adapter import autograd, calling
from inductord.compiler.regions.convention import Layout
from inductord.compiler.regions.program import Program

Compiled = Callable[[list[Any]], Sequence[Any]]
"""A compiled graph. It empties the list that it is given."""


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """The compiled graphs of a region; ``backward`` is None when nothing in it is trained."""

    forward: Compiled
    backward: Compiled | None


class Calls:
    """One direction of all regions of a graph, by number. Once each has been called they are called directly, unless somebody
    watches."""

    def __init__(self, graphs: Sequence[Compiled | None]) -> None:
        self._graphs = graphs
        self._direct: Sequence[Compiled | None] | None = None

    def now(self) -> Sequence[Compiled | None]:
        """What to call."""
        return self._graphs if self._direct is None or calling.watched() else self._direct

    def all_were_called(self) -> None:
        """Each has been."""
        if self._direct is None:
            self._direct = [graph and calling.directly(graph) for graph in self._graphs]


@dataclasses.dataclass(frozen=True, slots=True)
class Returned:
    """One value that the graph returns: output number ``index`` of the wiring, or input number ``index`` of the graph, or the
    constant ``value``."""

    kind: str
    index: int = 0
    value: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Composed:
    """``forward``, ``backward``: of the regions. ``constants``: values of the slots after the inputs. ``returned``: what the
    graph returns, in order. ``autocast``: whether autocast was on when it was traced. ``deterministic``: whether deterministic
    algorithms were asked for then."""

    program: Program
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
        env, _ = _forward(composed, inputs)
    return tuple(env[slot] for slot in composed.program.wiring.outputs)


Shapes = dict[int, tuple[torch.Size, torch.dtype, torch.device]]


def _forward(composed: Composed, inputs: Sequence[Any]) -> tuple[list[Any], Shapes]:
    env: list[Any] = [*inputs, *composed.constants]
    env += [None] * (composed.program.slots - len(env))
    shapes: Shapes = {}
    graphs = composed.forward.now()
    with autograd.without_autocast(composed.autocast):
        for step in composed.program.forward:
            compiled = graphs[step.region]
            assert compiled is not None
            args = [env[slot] for slot in step.args]
            for slot in step.drop:
                env[slot] = None
            returned = compiled(args)
            for place, slot in step.keep:
                env[slot] = returned[place]
            for place, slot in step.measure:
                value = returned[place]
                shapes[slot] = (value.shape, value.dtype, value.device)
    composed.forward.all_were_called()
    return env, shapes


def _function(composed: Composed) -> type[torch.autograd.Function]:
    program = composed.program
    fixed = [
        slot
        for slot, differentiable in zip(program.wiring.outputs, program.differentiable, strict=True)
        if not differentiable
    ]

    class ComposedGraph(torch.autograd.Function):
        """All regions of one graph."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple[Any, ...]:
            env, ctx.shapes = _forward(composed, inputs)
            ctx.save_for_backward(*(autograd.savable(env[slot]) for slot in program.saved))
            ctx.symints = [env[slot] for slot in program.symints]
            for slot in program.wiring.outputs:
                env[slot] = autograd.no_view(env[slot])
            autograd.end_forward(ctx, [env[slot] for slot in fixed if isinstance(env[slot], torch.Tensor)])
            return tuple(env[slot] for slot in program.wiring.outputs)

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


def _backward(composed: Composed, ctx: Any, given: Sequence[Any]) -> tuple[Any, ...]:
    program, graphs = composed.program, composed.backward.now()
    gradients: dict[int, Any] = dict(zip(program.wiring.outputs, given, strict=True))
    again = autograd.backward_comes_again()
    saved: list[Any] = autograd.take_saved(ctx)
    with autograd.without_autocast(composed.autocast):
        for step in program.backward:
            compiled = graphs[step.region]
            assert compiled is not None
            args = [ctx.symints[place] for place in step.symints]
            args += [saved[place] for place in step.saved]
            if again and step.donated:
                # The graph may write into these, and they are wanted once more.
                first = len(step.symints)
                for index in step.donated:
                    args[first + index] = args[first + index].clone()
            for place in step.drop:
                saved[place] = None
            for tangent in step.tangents:
                gradient = gradients.pop(tangent.slot, None)
                args.append(
                    _zero(ctx.shapes[tangent.slot], tangent.layout)
                    if gradient is None
                    else _laid_out(gradient, tangent.layout)
                )
                del gradient
            returned = compiled(args)
            for place, slot, first_of_slot in step.gradients:
                gradients[slot] = returned[place] if first_of_slot else gradients[slot] + returned[place]
            del returned
    composed.backward.all_were_called()
    return tuple(gradients[slot] if trained else None for slot, trained in enumerate(program.trained))


def _laid_out(gradient: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The gradient in the memory layout that backward was compiled for."""
    if layout.size is None or layout.stride is None:
        return gradient.contiguous(memory_format=getattr(torch, layout.memory_format))
    if gradient.shape == layout.size and gradient.stride() == layout.stride:
        return gradient
    fitting = torch.empty_strided(layout.size, layout.stride, dtype=gradient.dtype, device=gradient.device)
    return fitting.copy_(gradient)


def _zero(shape: tuple[torch.Size, torch.dtype, torch.device], layout: Layout) -> torch.Tensor:
    size, dtype, device = shape
    return _laid_out(torch.zeros(size, dtype=dtype, device=device), layout)
