"""The order of work of a composed graph, worked out once: which values each region takes, which it leaves, when a value is
let go, how gradients add up. Pure: no torch, no tensors.

Values live in numbered slots. Slots of the graph's own inputs come first, then constants, then what regions return.
"""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from inductord.compiler.regions.convention import Convention, Kind, Layout, Origin
from inductord.compiler.regions.reasons import NotCut, WholeReason


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One piece of the graph: ``region`` is the number of its compiled graphs, ``args`` and ``outs`` are slots."""

    region: int
    args: tuple[int, ...]
    outs: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Wiring:
    """A graph as calls of regions. ``inputs``: number of the graph's inputs; ``slots``: number of all slots that calls name;
    ``outputs``: the slots that the graph returns, each once."""

    inputs: int
    slots: int
    calls: tuple[Call, ...]
    outputs: tuple[int, ...]

    @property
    def given(self) -> int:
        """Number of the slots that no call fills: inputs and constants, which come first."""
        return min((slot for call in self.calls for slot in call.outs), default=self.slots)


@dataclasses.dataclass(frozen=True, slots=True)
class Forward:
    """One call forward. ``drop``: slots whose last use this is. ``keep``, ``measure``: (place among what the graph returns,
    slot) of values that are needed later, and of those whose shape is."""

    region: int
    args: tuple[int, ...]
    drop: tuple[int, ...]
    keep: tuple[tuple[int, int], ...]
    measure: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Tangent:
    """A gradient that a backward graph takes: of the value in ``slot``, in ``layout``. ``given``: whether there is one; else
    it is zero."""

    slot: int
    layout: Layout
    given: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Backward:
    """One call backward. ``symints``, ``saved``: places in what forward left; ``donated``: places in ``saved``.
    ``gradients``: (place among what the graph returns, slot, whether it is the first gradient of that slot).
    ``drop``: places of saved tensors whose last use this is."""

    region: int
    symints: tuple[int, ...]
    saved: tuple[int, ...]
    donated: frozenset[int]
    tangents: tuple[Tangent, ...]
    gradients: tuple[tuple[int, int, bool], ...]
    drop: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """``saved``, ``symints``: slots that forward leaves for backward, each once. ``differentiable``: for each output of the
    wiring, whether a gradient may come in. ``trained``: for each input of the graph, whether a gradient goes out.
    ``noticed``: inputs of the graph that are overwritten and of which autograd is told."""

    wiring: Wiring
    forward: tuple[Forward, ...]
    saved: tuple[int, ...]
    symints: tuple[int, ...]
    backward: tuple[Backward, ...]
    differentiable: tuple[bool, ...]
    trained: tuple[bool, ...]
    noticed: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Outside:
    """By region, the places of arguments that in some call are none that another region made."""

    forward: dict[int, frozenset[int]]
    backward: dict[int, frozenset[int]]


def from_outside(program: Program) -> Outside:
    """Of a program. Gradients are of none: they are laid out anew where that is needed."""
    given = program.wiring.given
    forward: dict[int, set[int]] = collections.defaultdict(set)
    backward: dict[int, set[int]] = collections.defaultdict(set)
    for step in program.forward:
        forward[step.region].update(place for place, slot in enumerate(step.args) if slot < given)
    for back in program.backward:
        taken = (*(program.symints[place] for place in back.symints), *(program.saved[place] for place in back.saved))
        backward[back.region].update(place for place, slot in enumerate(taken) if slot < given)
    return Outside(*({region: frozenset(found) for region, found in each.items()} for each in (forward, backward)))


def make_program(wiring: Wiring, regions: Sequence[Convention]) -> Program:
    """The program of a graph.

    Args:
        wiring: the calls, in an order in which they can run.
        regions: by number.

    Raises:
        NotCut: a region overwrites a value that others see as well.
    """
    builder = _Builder(wiring, regions)
    return builder.build()


class _Builder:
    def __init__(self, wiring: Wiring, regions: Sequence[Convention]) -> None:
        self._wiring = wiring
        self._regions = regions
        self._slots = wiring.slots
        self._saved: dict[int, int] = {}
        self._symints: dict[int, int] = {}

    def build(self) -> Program:
        wiring = self._wiring
        self._check_mutation()
        needs = self._needs()
        differentiable = self._differentiable()
        backward = self._backward(needs, {slot for slot in wiring.outputs if slot in differentiable})
        with_gradient = {slot for step in backward for _, slot, _ in step.gradients}
        measured = {tangent.slot for step in backward for tangent in step.tangents if not tangent.given}
        noticed = _unique(call.args[i] for call in wiring.calls for i in self._regions[call.region].noticed)
        return Program(
            wiring=wiring,
            forward=self._forward(needs, measured),
            saved=tuple(self._saved),
            symints=tuple(self._symints),
            backward=backward,
            differentiable=tuple(slot in differentiable for slot in wiring.outputs),
            trained=tuple(slot in with_gradient for slot in range(wiring.inputs)),
            noticed=noticed,
        )

    def _check_mutation(self) -> None:
        wiring = self._wiring
        mutated = [call.args[i] for call in wiring.calls for i in self._regions[call.region].mutated]
        if any(slot >= wiring.inputs for slot in mutated):
            raise NotCut(WholeReason.MUTATION, "a value is overwritten after it crossed a cut")
        uses = collections.Counter(slot for call in wiring.calls for slot in set(call.args))
        # Whoever saved it for backward would find it changed.
        if any(uses[slot] > 1 for slot in mutated) and any(region.backward for region in self._regions):
            raise NotCut(WholeReason.MUTATION, "an input is overwritten in one piece and used in another")

    def _needs(self) -> list[dict[Origin, int]]:
        """For each call, the slots of what its backward needs."""
        needs: list[dict[Origin, int]] = []
        for call in self._wiring.calls:
            places: dict[Origin, int] = {}
            backward = self._regions[call.region].backward
            if backward is not None:
                for origins, found in ((backward.saved, self._saved), (backward.symints, self._symints)):
                    for origin in origins:
                        found.setdefault(self._slot(call, origin, places), len(found))
            needs.append(places)
        return needs

    def _forward(self, needs: list[dict[Origin, int]], measured: set[int]) -> tuple[Forward, ...]:
        calls = self._wiring.calls
        last = {slot: number for number, call in enumerate(calls) for slot in call.args}
        stay = {*self._wiring.outputs, *self._saved, *self._symints}
        steps = []
        for number, (call, places) in enumerate(zip(calls, needs, strict=True)):
            returned = [*enumerate(call.outs), *((o.index, s) for o, s in places.items() if o.kind is Kind.NEW)]
            steps.append(
                Forward(
                    region=call.region,
                    args=call.args,
                    drop=_unique(slot for slot in call.args if last[slot] == number and slot not in stay),
                    keep=tuple((place, slot) for place, slot in returned if slot in last or slot in stay),
                    measure=tuple((place, slot) for place, slot in returned if slot in measured),
                )
            )
        return tuple(steps)

    def _slot(self, call: Call, origin: Origin, places: dict[Origin, int]) -> int:
        if origin not in places:
            if origin.kind is Kind.INPUT:
                places[origin] = call.args[origin.index]
            elif origin.kind is Kind.OUTPUT:
                places[origin] = call.outs[origin.index]
            else:
                places[origin] = self._slots
                self._slots += 1
        return places[origin]

    def _differentiable(self) -> set[int]:
        return {
            call.outs[index]
            for call in self._wiring.calls
            if (backward := self._regions[call.region].backward) is not None
            for index in backward.tangents
        }

    def _backward(self, needs: list[dict[Origin, int]], given: set[int]) -> tuple[Backward, ...]:
        having = set(given)
        steps: list[Backward] = []
        for call, places in zip(reversed(self._wiring.calls), reversed(needs), strict=True):
            backward = self._regions[call.region].backward
            if backward is None or not any(call.outs[index] in having for index in backward.tangents):
                continue
            tangents = tuple(
                Tangent(call.outs[index], layout, call.outs[index] in having)
                for index, layout in zip(backward.tangents, backward.layouts, strict=True)
            )
            gradients = []
            for place, slot in enumerate(call.args):
                if backward.gradients[place]:
                    gradients.append((place, slot, slot not in having))
                    having.add(slot)
            steps.append(
                Backward(
                    region=call.region,
                    symints=tuple(self._symints[places[origin]] for origin in backward.symints),
                    saved=tuple(self._saved[places[origin]] for origin in backward.saved),
                    donated=backward.donated,
                    tangents=tangents,
                    gradients=tuple(gradients),
                    drop=(),
                )
            )
        return _with_drops(steps)


def _with_drops(steps: list[Backward]) -> tuple[Backward, ...]:
    last = {place: number for number, step in enumerate(steps) for place in step.saved}
    return tuple(
        dataclasses.replace(step, drop=_unique(place for place in step.saved if last[place] == number))
        for number, step in enumerate(steps)
    )


def _unique(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(values))
