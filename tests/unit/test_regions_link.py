"""The functions of a composed graph: what is called with what, how long values live, how gradients add up."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from inductord.compiler.regions.convention import Backward, Convention, Kind, Layout, Origin
from inductord.compiler.regions.link import Tensors, link
from inductord.compiler.regions.program import Call, Wiring, from_outside, make_program

pytestmark = pytest.mark.unit

LAYOUT = Layout((1,), (1,), "")
OTHER = Layout((2,), (2,), "")


class Value:
    """In place of a tensor."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __add__(self, other: "Value") -> "Value":
        return Value(self.number + other.number)

    def clone(self) -> "Value":
        """A copy, to tell from what may be written into."""
        return Value(self.number)


LAID_OUT: list[tuple[float, Layout]] = []


def laid_out(gradient: Value, layout: Layout) -> Value:
    LAID_OUT.append((gradient.number, layout))
    return gradient


TENSORS = Tensors(
    laid_out, lambda shape, layout: Value(0 if layout is LAYOUT else shape[0]), lambda value: (value.number, None, None)
)


def product() -> Convention:
    """``y = x * w``: saves both and y."""
    saved = (Origin(Kind.INPUT, 0), Origin(Kind.INPUT, 1), Origin(Kind.NEW, 1))
    return Convention(2, 1, (), (), Backward((), saved, frozenset({2}), (0,), (LAYOUT,), (True, True)))


class Product:
    """The graphs of ``product``. ``alive``: how many of the results that it made are alive, at each call."""

    def __init__(self) -> None:
        self.alive: list[int] = []
        self._made: list[weakref.ref[Value]] = []

    def forward(self, args: list[Any]) -> Sequence[Value]:
        x, w = args
        args.clear()
        self._note()
        made = Value(x.number * w.number), Value(x.number)
        self._made += map(weakref.ref, made)
        return made

    def backward(self, args: list[Any]) -> Sequence[Value]:
        x, w, own, gradient = args
        args.clear()
        self._note()
        assert own.number == x.number
        own.number = float("nan")  # it may write there
        return Value(gradient.number * w.number), Value(gradient.number * x.number)

    def _note(self) -> None:
        self.alive.append(sum(each() is not None for each in self._made))


def chain(*weights: int) -> Wiring:
    """Products one after the other, on slot 0, with their weights in these slots."""
    inputs = 1 + max(weights)
    calls = [Call(0, (inputs + at - 1 if at else 0, weight), (inputs + at,)) for at, weight in enumerate(weights)]
    return Wiring(inputs, inputs + len(weights), tuple(calls), (inputs + len(weights) - 1,))


def run(wiring: Wiring, *numbers: float, again: bool = False) -> tuple[Product, Callable[[], list[float]], float]:
    """Its graphs, a backward pass that gives the gradients of all inputs, and the result."""
    linked, graphs = link(make_program(wiring, [product()]), TENSORS), Product()
    inputs = [Value(number) for number in numbers]
    (result,), saved, symints, shapes = linked.forward([graphs.forward], inputs, ())

    def backward() -> list[float]:
        given = linked.backward([graphs.backward], list(saved), symints, shapes, (Value(1),), again)
        return [each.number for each in given]

    return graphs, backward, result.number


def test_gradients_of_a_value_that_several_pieces_take_add_up() -> None:
    _, backward, result = run(chain(1, 2, 1), 2, 3, 5)
    assert result == 2 * 3 * 5 * 3
    assert backward() == [45, 60, 18]


def test_what_backward_may_overwrite_is_copied_when_it_comes_again() -> None:
    _, backward, _ = run(chain(1, 2), 2, 3, 5, again=True)
    assert backward() == backward() == [15, 10, 6]


def test_values_are_let_go_before_the_call_that_uses_them_last() -> None:
    wiring = Wiring(1, 4, (Call(0, (0,), (1,)), Call(0, (1,), (2,)), Call(0, (2,), (3,))), (3,))
    linked = link(make_program(wiring, [Convention(1, 1, (), (), None)]), TENSORS)
    made: list[weakref.ref[Value]] = []
    alive = []

    def graph(args: list[Any]) -> Sequence[Value]:
        args.clear()
        alive.append(sum(each() is not None for each in made))
        value = Value(1)
        made.append(weakref.ref(value))
        return [value]

    linked.forward([graph], [Value(0)], ())
    assert alive == [0, 0, 0]


def test_backward_lets_go_of_what_was_saved_as_it_goes() -> None:
    linked = link(make_program(chain(1, 1, 1), [product()]), TENSORS)
    graphs = Product()
    outputs, left, symints, shapes = linked.forward([graphs.forward], [Value(2), Value(3)], ())
    saved = list(left)
    del outputs, left
    graphs.alive.clear()
    linked.backward([graphs.backward], saved, symints, shapes, (Value(1),), False)
    assert saved == []
    # What each product kept for itself, and the results of the first two, which the ones after them kept.
    assert graphs.alive == [5, 3, 1]


def test_gradients_are_laid_out_as_backward_was_compiled_and_missing_ones_are_zero() -> None:
    LAID_OUT.clear()
    two = Backward((), (), frozenset(), (0, 1), (LAYOUT, OTHER), (True,))
    wiring = Wiring(1, 3, (Call(0, (0,), (1, 2)),), (1,))
    linked = link(make_program(wiring, [Convention(1, 2, (), (), two)]), TENSORS)
    asked = []

    def backward(args: list[Any]) -> Sequence[Value]:
        asked.extend(each.number for each in args)
        return [Value(sum(each.number for each in args))]

    outputs, saved, symints, shapes = linked.forward([lambda args: [Value(4), Value(7)]], [Value(0)], ())
    assert [each.number for each in outputs] == [4]
    (gradient,) = linked.backward([backward], list(saved), symints, shapes, (Value(1),), False)
    assert LAID_OUT == [(1, LAYOUT)]
    assert asked == [1, 7]  # the second is made of the shape that was noted
    assert gradient.number == 8


def test_what_comes_from_outside_is_known_by_region() -> None:
    outside = from_outside(make_program(chain(1, 2), [product()]))
    # The first product takes the graph's own input, so for all of them that place is one from outside.
    assert outside.forward == {0: frozenset({0, 1})}
    assert outside.backward == {0: frozenset({0, 1})}
    only_later = Wiring(2, 5, (Call(1, (0,), (2,)), Call(0, (2, 1), (3,)), Call(0, (3, 1), (4,))), (4,))
    other = Convention(1, 1, (), (), Backward((), (), frozenset(), (0,), (LAYOUT,), (True,)))
    outside = from_outside(make_program(only_later, [product(), other]))
    assert outside.forward == {0: frozenset({1}), 1: frozenset({0})}
    assert outside.backward == {0: frozenset({1}), 1: frozenset()}
