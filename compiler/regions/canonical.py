"""The exact structure of a run of nodes, as a key: two runs with equal keys are compiled to the same code.

A key numbers nodes and inputs in the order in which the run meets them, so it depends neither on names nor on where in
the graph the run stands. It holds each node's operator, literals and kind of value, how values flow, the kinds of the inputs,
and which of them share memory.
"""

import dataclasses
from collections.abc import Hashable, Iterable

from inductord.compiler.regions.facts import Facts, Role


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """``nodes``: with attached nodes, each before its first use. ``inputs``: by first use. ``key``: the structure."""

    nodes: list[int]
    inputs: list[int]
    key: Hashable


def run_of(facts: Facts, real: Iterable[int], wanted: Iterable[int] = ()) -> Run:
    """The run of the given real nodes. ``wanted``: attached nodes that it shall compute whether it uses them or not."""
    nodes: list[int] = []
    inputs: list[int] = []
    number: dict[int, int] = {}  # nodes from 0 up, inputs from -1 down
    structure: list[int] = []
    for node in (*real, *wanted):
        # Attached nodes come with the first real node that needs them: depth first, in the order of arguments.
        pending = [node]
        while pending:
            last = pending[-1]
            if last in number:
                pending.pop()
                continue
            role = facts.roles[last]
            if role is Role.SOURCE or (role is Role.REAL and last != node):
                number[last] = ~len(inputs)
                inputs.append(last)
                pending.pop()
                continue
            missing = [argument for argument in facts.arguments[last] if argument not in number]
            if missing:
                pending.extend(reversed(missing))
                continue
            structure.append(facts.token[last])
            structure.extend(number[argument] for argument in facts.arguments[last])
            number[last] = len(nodes)
            nodes.append(last)
            pending.pop()
    memory: dict[int, int] = {}
    kinds = tuple(facts.value[each] for each in inputs)
    shared = tuple(
        memory.setdefault(facts.storage[each] if facts.storage[each] >= 0 else ~at, at)
        for at, each in enumerate(inputs)
    )
    return Run(nodes, inputs, (tuple(structure), kinds, shared))
