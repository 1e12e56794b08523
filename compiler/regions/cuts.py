"""Where a graph may be cut, and what a cut loses.

The real nodes stand in a row, in the order of the graph; cut ``p`` lies before the node at place ``p`` of the row. A value
crosses a cut when it is made before it and used after it.

A cut loses nothing when each value that crosses it would be in memory anyway: it comes from a library call such as a matrix
product, or its user after the cut waits for a library call that waits for it, as the residual stream does. Otherwise an
operation that would have been fused writes and reads memory instead. Those bytes are the loss.
"""

import dataclasses
import itertools

from inductord.compiler.regions.facts import Facts, Role

_ROUND_TRIP = 2
"""A lost fusion writes the value and reads it again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """``nodes``: the real nodes, in order. ``legal[p]``: whether cut ``p`` is possible. ``loss[p]``: bytes lost there."""

    nodes: list[int]
    legal: list[bool]
    loss: list[int]


class _Intervals:
    """Amounts over ranges of cuts. Adding is O(1), reading all O(cuts)."""

    def __init__(self, length: int) -> None:
        self._steps = [0] * (length + 1)

    def add(self, after: int, until: int, amount: int = 1) -> None:
        """``amount`` at each cut that separates place ``after`` from place ``until``."""
        if until > after:
            self._steps[after + 1] += amount
            self._steps[until + 1] -= amount

    def amounts(self) -> list[int]:
        return list(itertools.accumulate(self._steps))[:-1]


def survey(facts: Facts) -> Row:
    """All cuts of a graph. O(nodes + arguments), but for sorting the places of aliases."""
    real = [node for node, role in enumerate(facts.roles) if role is Role.REAL]
    place = {node: at for at, node in enumerate(real)}
    roots = roots_of(facts)
    level = _levels(facts, roots)
    forbidden, lost = _Intervals(len(real)), _Intervals(len(real))

    last = dict.fromkeys(real, -1)  # the last place where the value of a real node is used
    fused: dict[int, int] = {}  # the last place where it is used by what could be fused with it
    called: dict[int, int] = {}  # the last place where a library call uses it that waits for nothing else
    for at, node in enumerate(real):
        for argument in facts.arguments[node]:
            for root in roots[argument]:
                if root not in last:
                    continue  # a source is in memory anyway
                last[root] = at
                if facts.materialised[root] or level[root] != level[node]:
                    continue
                if not facts.materialised[node]:
                    fused[root] = at
                elif facts.gradient[root]:
                    called[root] = at
    for root, until in fused.items():
        lost.add(place[root], until, _ROUND_TRIP * facts.num_bytes[root])
    for root, until in called.items():
        # It is in memory for the call, but backward keeps it where it might have computed it again, and the gradients of its
        # users behind the cut are added up there, apart from where the sum is used.
        lost.add(place[root], until, facts.num_bytes[root])
    for result in facts.results:
        for root in roots[result]:
            if root in last and root != result:
                last[root] = max(last[root], place[root])
    for node, until in last.items():
        if not facts.crosses[node]:
            forbidden.add(place[node], until)
    for at, (node, following) in enumerate(itertools.pairwise(real)):
        if facts.inside[node] and facts.inside[following]:
            forbidden.add(at, at + 1)
    _forbid_aliases(facts, real, last, roots, forbidden)
    return Row(real, [amount == 0 for amount in forbidden.amounts()], lost.amounts())


def roots_of(facts: Facts) -> list[tuple[int, ...]]:
    """For each node the sources and real nodes whose values it is or is computed from by attached nodes alone."""
    roots: list[tuple[int, ...]] = []
    for node, role in enumerate(facts.roles):
        if role is not Role.ATTACHED:
            roots.append((node,))
            continue
        found = [root for argument in facts.arguments[node] for root in roots[argument]]
        roots.append(tuple(dict.fromkeys(found)))
    return roots


def _levels(facts: Facts, roots: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Between which library calls each node can run: how many must come before it, and before how many it must come, counted
    on the longest ways. Nodes of which both are equal may be fused."""
    real = [node for node, role in enumerate(facts.roles) if role is Role.REAL]
    before = {node: [root for each in facts.arguments[node] for root in roots[each]] for node in real}
    early = [0] * len(facts.roles)
    for node in real:
        early[node] = max((early[root] + facts.materialised[root] for root in before[node]), default=0)
    late = [max(early, default=0)] * len(facts.roles)
    for node in reversed(real):
        for root in before[node]:
            late[root] = min(late[root], late[node] - facts.materialised[root])
    return list(zip(early, late, strict=True))


def _forbid_aliases(
    facts: Facts, real: list[int], last: dict[int, int], roots: list[tuple[int, ...]], forbidden: _Intervals
) -> None:
    """Memory that a piece makes is changed in that piece alone, and no cut is crossed by two names of the same memory."""
    place = {node: at for at, node in enumerate(real)}
    sharing: dict[int, list[int]] = {}
    outside: set[int] = set()
    for node, storage in enumerate(facts.storage):
        if storage >= 0 and facts.roles[node] is Role.REAL:
            sharing.setdefault(storage, []).append(node)
        elif facts.roles[node] is Role.SOURCE:
            outside.add(storage)
    for at, node in enumerate(real):
        for argument in facts.written[node]:
            if facts.storage[argument] not in outside:
                made = sharing.get(facts.storage[argument], [node])[0]
                forbidden.add(place[made], at)
    for storage, nodes in sharing.items():
        if storage in outside:
            for node in nodes:
                forbidden.add(place[node], last[node])
        elif len(nodes) > 1:
            # Live ranges by start: while an earlier one is open, a later one must not be.
            until = -1
            for node in nodes:
                forbidden.add(place[node], min(until, last[node]))
                until = max(until, last[node])
