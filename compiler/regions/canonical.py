"""The exact structure of a run of nodes, as a key: two runs with equal keys are compiled to the same code.

A key numbers nodes and inputs in the order in which the run meets them, so it depends neither on names nor on where in
the graph the run stands. It holds each node's operator, literals and kind of value, how values flow, the kinds of the inputs,
and which of them share memory.
"""

import dataclasses
import itertools
from collections.abc import Hashable, Iterable, Sequence

from inductord.compiler.regions.facts import Facts, Role


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """``nodes``: with attached nodes, each before its first use. ``inputs``: by first use. ``key``: the structure."""

    nodes: list[int]
    inputs: list[int]
    key: Hashable


def run_of(facts: Facts, real: Sequence[int], wanted: Iterable[int] = ()) -> Run:
    """The run of the given real nodes. ``wanted``: attached nodes that it shall compute whether it uses them or not."""
    writer = _Writer(facts)
    for at, node in enumerate(real):
        if facts.inside[node] and not (at and facts.inside[real[at - 1]]):
            # Views of what is outside of a context are taken before it is entered: in `no_grad` they would lose their gradient.
            for within in itertools.takewhile(lambda each: facts.inside[each], real[at:]):
                for argument in facts.arguments[within]:
                    if facts.roles[argument] is Role.ATTACHED:
                        writer.write(argument)
        writer.enter(facts.chain[node])
        writer.write(node)
    writer.enter(())
    for node in wanted:
        writer.write(node)
    return writer.run()


class _Writer:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._nodes: list[int] = []
        self._inputs: list[int] = []
        self._number: dict[int, int] = {}  # nodes from 0 up, inputs from -1 down
        self._structure: list[int] = []
        self._open: tuple[int, ...] = ()

    def enter(self, chain: tuple[int, ...]) -> None:
        """Leave and enter autocasts until those of ``chain`` are open."""
        while self._open != chain[: len(self._open)]:
            self._put(self._facts.closed[self._open[-1]])
            self._open = self._open[:-1]
        for node in chain[len(self._open) :]:
            self._put(node)
        self._open = chain

    def write(self, node: int) -> None:
        """Put ``node`` after the attached nodes that it needs: depth first, in the order of arguments."""
        facts, number = self._facts, self._number
        pending = [node]
        while pending:
            last = pending[-1]
            if last in number:
                pending.pop()
            elif last != node and facts.roles[last] is not Role.ATTACHED:
                number[last] = ~len(self._inputs)
                self._inputs.append(last)
                pending.pop()
            elif missing := [argument for argument in facts.arguments[last] if argument not in number]:
                pending.extend(reversed(missing))
            else:
                self._put(last)
                pending.pop()

    def _put(self, node: int) -> None:
        number = self._number
        self._structure.append(self._facts.token[node])
        self._structure.extend([number[argument] for argument in self._facts.arguments[node]])
        number[node] = len(self._nodes)
        self._nodes.append(node)

    def run(self) -> Run:
        storage = [self._facts.storage[each] for each in self._inputs]
        first: dict[int, int] = {}
        shared = tuple(at if memory < 0 else first.setdefault(memory, at) for at, memory in enumerate(storage))
        kinds = tuple(self._facts.value[each] for each in self._inputs)
        return Run(self._nodes, self._inputs, (tuple(self._structure), kinds, shared))
