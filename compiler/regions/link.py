"""The order of work of a composed graph as Python functions without loops.

A step of a deep model moves thousands of values between its pieces. Looked up in a table, that costs a few per cent of a step
where the host has to keep a GPU busy; as local variables of a function that is written for the one program, it costs a third.
Pure: no torch, no tensors. The functions are compiled from text, as those of ``torch.fx`` are.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from inductord.compiler.regions.convention import Layout
from inductord.compiler.regions.program import Backward, Program

Shape = tuple[Any, Any, Any]
"""Size, dtype and device of a tensor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tensors:
    """What the functions do with tensors: ``laid_out`` gives a gradient in a layout, ``zero`` makes one that is zero,
    ``shape`` says what ``zero`` has to know."""

    laid_out: Callable[[Any, Layout], Any]
    zero: Callable[[Shape, Layout], Any]
    shape: Callable[[Any], Shape]


@dataclasses.dataclass(frozen=True, slots=True)
class Linked:
    """``forward(graphs, inputs, constants)``: a tuple each of the outputs of the wiring, of what is saved, of the sizes that
    are saved, and of shapes. ``backward(graphs, saved, symints, shapes, gradients, again)``: a gradient, or None, for each
    input. It empties the list ``saved``; ``again`` is whether backward will come once more. ``graphs``: by region."""

    forward: Callable[..., tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], tuple[Shape, ...]]]
    backward: Callable[..., tuple[Any, ...]]


def link(program: Program, tensors: Tensors) -> Linked:
    """The functions of a program."""
    layouts = {tangent.layout: None for step in program.backward for tangent in step.tangents}
    names = {layout: f"layout{number}" for number, layout in enumerate(layouts)}
    namespace: dict[str, Any] = {name: layout for layout, name in names.items()}
    namespace |= {"laid_out": tensors.laid_out, "zero": tensors.zero, "shape_of": tensors.shape}
    measured = tuple(slot for step in program.forward for _, slot in step.measure)
    for text in (_forward(program, measured), _backward(program, measured, names)):
        exec(compile("\n".join(text), "<composed graph>", "exec"), namespace)
    return Linked(namespace["forward"], namespace["backward"])


def _forward(program: Program, measured: tuple[int, ...]) -> Iterator[str]:
    wiring = program.wiring
    given = wiring.given
    yield "def forward(graphs, inputs, constants):"
    yield from _unpack("graph", {step.region for step in program.forward}, "graphs")
    if given:
        yield f"    {_tuple(f'value{slot}' for slot in range(given))} = *inputs, *constants"
    for step in program.forward:
        yield f"    args = [{_list('value', step.args)}]"
        # The caller holds what it gave.
        yield from _let_go("value", (slot for slot in step.drop if slot >= given))
        yield f"    returned = graph{step.region}(args)"
        for place, slot in step.keep:
            yield f"    value{slot} = returned[{place}]"
        for place, slot in step.measure:
            yield f"    shape{slot} = shape_of(returned[{place}])"
        yield "    returned = None"
    left = (("value", wiring.outputs), ("value", program.saved), ("value", program.symints), ("shape", measured))
    yield f"    return {_tuple(_tuple(f'{kind}{number}' for number in numbers) for kind, numbers in left)}"


def _backward(program: Program, measured: tuple[int, ...], layouts: dict[Layout, str]) -> Iterator[str]:
    yield "def backward(graphs, saved, symints, shapes, gradients, again):"
    yield from _unpack("graph", {step.region for step in program.backward}, "graphs")
    for kind, numbers, given in (
        ("saved", range(len(program.saved)), "saved"),
        ("symint", range(len(program.symints)), "symints"),
        ("shape", measured, "shapes"),
        ("gradient", program.wiring.outputs, "gradients"),
    ):
        if numbers:
            yield f"    {_tuple(f'{kind}{number}' for number in numbers)} = {given}"
    yield "    saved.clear()"
    yield "    gradients = None"
    for step in program.backward:
        yield from _step_back(step, layouts)
    yield f"    return {_tuple(f'gradient{slot}' if trained else 'None' for slot, trained in enumerate(program.trained))}"


def _step_back(step: Backward, layouts: dict[Layout, str]) -> Iterator[str]:
    yield f"    args = [{', '.join(filter(None, (_list('symint', step.symints), _list('saved', step.saved))))}]"
    if step.donated:
        # The graph may write into these, and they are wanted once more.
        yield "    if again:"
        for index in sorted(step.donated):
            place = len(step.symints) + index
            yield f"        args[{place}] = args[{place}].clone()"
    yield from _let_go("saved", step.drop)
    for tangent in step.tangents:
        layout = layouts[tangent.layout]
        if tangent.given:
            yield f"    args.append(laid_out(gradient{tangent.slot}, {layout}))"
            yield f"    gradient{tangent.slot} = None"
        else:
            yield f"    args.append(zero(shape{tangent.slot}, {layout}))"
    yield f"    returned = graph{step.region}(args)"
    for place, slot, first_of_slot in step.gradients:
        sum_so_far = "" if first_of_slot else f"gradient{slot} + "
        yield f"    gradient{slot} = {sum_so_far}returned[{place}]"
    yield "    returned = None"


def _unpack(kind: str, numbers: Iterable[int], source: str) -> Iterator[str]:
    for number in sorted(numbers):
        yield f"    {kind}{number} = {source}[{number}]"


def _list(kind: str, numbers: Iterable[int]) -> str:
    return ", ".join(f"{kind}{number}" for number in numbers)


def _tuple(names: Iterable[str]) -> str:
    listed = [*names]
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _let_go(kind: str, numbers: Iterable[int]) -> Iterator[str]:
    if names := [f"{kind}{number}" for number in numbers]:
        yield f"    {' = '.join(names)} = None"
