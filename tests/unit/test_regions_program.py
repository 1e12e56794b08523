"""The order of work of a composed graph: what is kept, for how long, and how gradients add up."""

import pytest

from inductord.compiler.regions.convention import Backward, Convention, Kind, Layout, Origin
from inductord.compiler.regions.program import Call, Wiring, make_program
from inductord.compiler.regions.reasons import NotCut, WholeReason

pytestmark = pytest.mark.unit

LAYOUT = Layout((2,), (1,), "")


def layer(*, mutated: tuple[int, ...] = ()) -> Convention:
    """``y = layer(x, w)``: saves both and something of its own, gives gradients to both."""
    saved = (Origin(Kind.INPUT, 0), Origin(Kind.INPUT, 1), Origin(Kind.NEW, 1))
    backward = Backward((), saved, frozenset({2}), (0,), (LAYOUT,), (True, True))
    return Convention(2, 1, mutated, mutated, backward)


def constant() -> Convention:
    """``y = constant(x)``: nothing is trained."""
    return Convention(1, 1, (), (), None)


def chain(*weights: int, outputs: tuple[int, ...] = ()) -> Wiring:
    """Layers one after the other, on slot 0, with their weights in these slots."""
    inputs = 1 + max(weights)
    calls, x = [], 0
    for number, weight in enumerate(weights):
        calls.append(Call(0, (x, weight), (inputs + number,)))
        x = inputs + number
    return Wiring(inputs, inputs + len(weights), tuple(calls), outputs or (x,))


def test_layers_share_one_region_and_run_backward_in_reverse() -> None:
    program = make_program(chain(1, 2, 3), [layer()])
    assert [step.args for step in program.forward] == [(0, 1), (4, 2), (5, 3)]
    assert [step.tangents[0].slot for step in program.backward] == [6, 5, 4]
    assert program.trained == (True, True, True, True)
    assert program.differentiable == (True,)


def test_a_value_is_saved_once_and_let_go_after_its_last_use() -> None:
    program = make_program(chain(1, 1, 1), [layer()])
    assert len(set(program.saved)) == len(program.saved)
    assert set(program.saved) >= {0, 1, 2, 3}
    dropped = [[program.saved[place] for place in step.drop] for step in program.backward]
    # The shared weight stays until the first layer's backward, which is the last to run.
    assert [1 in slots for slots in dropped] == [False, False, True]
    assert sorted(slot for slots in dropped for slot in slots) == sorted(program.saved)


def test_what_nobody_saved_is_let_go_in_forward() -> None:
    wiring = Wiring(1, 4, (Call(0, (0,), (1,)), Call(0, (1,), (2,)), Call(0, (2,), (3,))), (3,))
    program = make_program(wiring, [constant()])
    assert [step.drop for step in program.forward] == [(0,), (1,), (2,)]
    assert (program.saved, program.backward, program.trained) == ((), (), (False,))


def test_gradients_of_a_shared_weight_add_up() -> None:
    program = make_program(chain(1, 1), [layer()])
    assert [[(slot, first) for _, slot, first in step.gradients] for step in program.backward] == [
        [(2, True), (1, True)],
        [(0, True), (1, False)],
    ]


def test_an_output_that_goes_on_adds_to_the_gradient_from_outside() -> None:
    program = make_program(chain(1, 2, outputs=(3, 4)), [layer()])
    (last, _) = program.backward
    assert (0, 3, False) in last.gradients


def test_a_piece_without_any_gradient_does_not_run_backward() -> None:
    program = make_program(chain(1, 2, outputs=(3,)), [layer()])
    assert [step.tangents[0].slot for step in program.backward] == [3]
    assert program.trained == (True, True, False)


def test_a_missing_gradient_beside_one_that_is_there_is_a_zero_of_known_shape() -> None:
    two = Backward((), (), frozenset(), (0, 1), (LAYOUT, LAYOUT), (True,))
    program = make_program(Wiring(1, 3, (Call(0, (0,), (1, 2)),), (2,)), [Convention(1, 2, (), (), two)])
    (step,) = program.backward
    assert [(each.slot, each.given) for each in step.tangents] == [(1, False), (2, True)]
    assert program.forward[0].measure == ((0, 1),)
    assert program.forward[0].keep == ((1, 2),)


def test_sizes_travel_beside_the_tensors() -> None:
    backward = Backward(
        (Origin(Kind.INPUT, 1),), (Origin(Kind.OUTPUT, 0),), frozenset(), (0,), (LAYOUT,), (True, False)
    )
    program = make_program(Wiring(2, 3, (Call(0, (0, 1), (2,)),), (2,)), [Convention(2, 1, (), (), backward)])
    assert (program.symints, program.saved) == ((1,), (2,))
    assert program.trained == (True, False)


def test_an_input_may_be_overwritten_by_the_one_piece_that_uses_it() -> None:
    program = make_program(chain(1, 2), [layer(mutated=(1,))])
    assert program.noticed == (1, 2)


@pytest.mark.parametrize("mutated", [0, 1], ids=["a value that crossed a cut", "an input that others use"])
def test_what_others_see_must_not_be_overwritten(mutated: int) -> None:
    with pytest.raises(NotCut) as refused:
        make_program(chain(1, 1), [layer(mutated=(mutated,))])
    assert refused.value.reason is WholeReason.MUTATION
