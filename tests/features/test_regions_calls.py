"""How the compiled graphs of regions are called: in full at first and while somebody watches, then without what they assert of
values that they give one another. With real Inductor."""

import ast
import contextlib
import functools
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.utils import align_inputs_from_check_idxs
from torch.utils._ordered_set import OrderedSet

from inductord.compiler.adapter import calling
from inductord.compiler.regions.compose import Calls

pytestmark = [pytest.mark.features, pytest.mark.timeout(600)]

WIDTH = 16


class Counted:
    """As a compiled graph of Inductor: ``__call__`` is more than what it runs."""

    def __init__(self) -> None:
        self.calls = 0

    def current_callable(self, args: list[Any]) -> list[Any]:
        return args

    def __call__(self, args: list[Any]) -> list[Any]:
        self.calls += 1
        return self.current_callable(args)


def test_graphs_that_were_called_once_are_called_directly_unless_somebody_watches() -> None:
    graph, other = Counted(), functools.partial(list, ())
    calls = Calls([graph, None, other], {})

    def step(*, trusted: bool = True) -> int:
        before = graph.calls
        with calls.now(trusted) as (first, nothing, last):
            assert (first and first([1]), nothing, last) == ([1], None, other)
        return graph.calls - before

    assert [step(), step(), step()] == [1, 0, 0]
    assert [step(trusted=False), step()] == [1, 0]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert step() == 1
    assert step() == 0


class Stack(nn.Module):
    """Layers that are alike."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.sin(layer(torch.cos(x)))
        return x


@pytest.fixture(scope="module")
def graphs() -> Iterator[list[list[Any]]]:
    """Forward and backward graphs by region of a stack that has made a step, and the directions as they were composed."""
    made: list[list[Any]] = []
    plain = Calls.__init__

    def noted(self: Calls, graphs: Any, checked: Any) -> None:
        made.append([self, graphs, checked])
        plain(self, graphs, checked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calls, "__init__", noted)
        patch.setenv("INDUCTORD_ADDRESS", "unix:/nonexistent/socket")
        torch._dynamo.reset()
        model = Stack()
        compiled = torch.compile(model, backend="inductord", options={"inductord_regions": "force"})
        compiled(torch.randn(4, WIDTH)).sum().backward()
    yield [[model, compiled], *made]
    torch._dynamo.reset()


def refused(graph: Callable[[list[Any]], Any], place: int, arguments: list[torch.Tensor]) -> bool:
    """Whether a graph asserts that this argument has the layout that it was compiled for."""
    arguments = list(arguments)
    wrong = arguments[place]
    arguments[place] = torch.zeros(*wrong.shape, 2)[..., 0]  # the same sizes, other strides, as much memory and more
    try:
        graph(arguments)
    except AssertionError:
        return True
    return False


def test_only_arguments_from_outside_are_asserted(graphs: list[list[Any]]) -> None:
    """Of every graph, with arguments as it was compiled for and with each of them in another layout."""
    dropped = 0
    for _, given, checked in graphs[1:]:
        for number, (graph, lean) in enumerate(zip(given, calling.directly(given, checked).graphs, strict=True)):
            layouts = layouts_of(graph)
            arguments = [torch.ones(size).as_strided(size, stride) for size, stride in layouts.values()]
            # Clones: backward may write into what it is given.
            expected = graph.current_callable([each.clone() for each in arguments])
            for found, right in zip(lean([each.clone() for each in arguments]), expected, strict=True):
                assert (found is None and right is None) or torch.equal(found, right)
            for place, name in enumerate(layouts):
                if f"assert_size_stride({name}, " in graph.source_code:
                    assert refused(graph.current_callable, place, arguments)
                    assert refused(lean, place, arguments) == (place in checked[number])
                    dropped += place not in checked[number]
    assert dropped


def layouts_of(graph: Any) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Sizes and strides of what a graph takes, by name, as the code says that Inductor leaves for its benchmark."""
    made = re.findall(r"^    (\w+) = rand_strided\((\(.*?\)), (\(.*?\)), ", graph.source_code, re.MULTILINE)
    return {name: (ast.literal_eval(size), ast.literal_eval(stride)) for name, size, stride in made}


def test_saved_tensors_that_come_back_otherwise_are_refused_as_by_inductor(graphs: list[list[Any]]) -> None:
    (model, compiled), *_ = graphs
    x = torch.randn(4, WIDTH)
    compiled(x).sum().backward()  # directly, from here on

    def otherwise(saved: torch.Tensor) -> torch.Tensor:
        return torch.stack((saved, saved), -1)[..., 0] if saved.shape == (4, WIDTH) else saved

    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, otherwise):
        result = compiled(x)
    with pytest.raises(AssertionError, match="stride"):
        result.sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.clone(), lambda saved: saved):
        expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        model.zero_grad()
        compiled(x).sum().backward()
    assert expected.keys() == {name for name, _ in model.named_parameters()}


CODE = """
class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def call(self, args):
        arg0_1, s0 = args
        args.clear()
        {first}assert_size_stride(arg0_1, (2, ), (1, ))
        with torch.cuda._DeviceGuard({device}):
            torch.cuda.set_device({device})
            {later}assert_size_stride(arg0_1, (2, ), (1, ), 'input')
            assert_size_stride(arg0_1, (2, ), (1, ), 'torch.ops.of.another')
            del arg0_1
        return (s0, )

runner = Runner(partitions=[])
call = runner.call
"""


class OfGpu:
    """A compiled graph for a GPU as far as its calls go. ``notes`` gets what it does."""

    def __init__(self, device: int, notes: list[Any], *, later: bool = False) -> None:
        guard = types.SimpleNamespace(_DeviceGuard=lambda number: contextlib.nullcontext(), set_device=notes.append)
        namespace: dict[str, Any] = {
            "torch": types.SimpleNamespace(cuda=guard),
            "assert_size_stride": lambda _, __, ___, of="input": notes.append(of),
        }
        self.source_code = CODE.format(device=device, first="#" * later, later="#" * (not later))
        exec(self.source_code, namespace)
        self.compiled_fn_runner = namespace["runner"]
        self.current_callable = namespace["call"]
        self.inputs_to_check: list[int] = []
        self.mutated_input_idxs: list[int] = []

    def __call__(self, args: list[Any]) -> Any:
        return self.current_callable(args)


def done(graph: Callable[[list[Any]], Any] | None, notes: list[Any]) -> list[Any]:
    """What it notes when it is called."""
    notes.clear()
    assert graph
    assert graph([object(), 5]) == (5,)
    return [*notes]


@pytest.mark.parametrize("later", [False, True])
def test_the_device_is_entered_once_for_all_graphs_of_a_device(later: bool) -> None:
    notes: list[Any] = []
    other = "torch.ops.of.another"
    assert done(OfGpu(3, notes, later=later), notes) == ([3, "input", other] if later else ["input", 3, other])
    direct = calling.directly([OfGpu(3, notes, later=later), None, OfGpu(3, notes, later=later)], {2: frozenset({0})})
    assert done(direct.graphs[0], notes) == [other]
    assert done(direct.graphs[2], notes) == ["input", other]
    assert direct.around is not contextlib.nullcontext
    direct = calling.directly([OfGpu(3, notes), OfGpu(1, notes)], {})
    assert done(direct.graphs[0], notes) == [3, other]
    assert direct.around is contextlib.nullcontext


def test_arguments_are_still_aligned() -> None:
    notes: list[Any] = []
    graph = OfGpu(0, notes)
    graph.inputs_to_check = [0]
    graph.current_callable = align_inputs_from_check_idxs(graph.current_callable, [0], OrderedSet())
    direct = calling.directly([graph], {})
    (lean,) = direct.graphs
    assert lean
    given = [torch.zeros(9)[1:], 5]
    lean(given)
    assert notes == ["torch.ops.of.another"]
    assert given == []
    with pytest.raises(AssertionError, match="tensor"):
        lean([object(), 5])


def test_what_is_called_otherwise_stays_as_it_is() -> None:
    graph = OfGpu(0, [])
    graph.current_callable = replacement = list
    assert calling.directly([graph], {}).graphs == [replacement]
    assert calling.directly([replacement], {}).graphs == [replacement]
