"""Which neighbouring blocks become one piece. Pure: symbols and sizes in, runs out.

A graph that was cut wherever nothing is lost is a row of blocks, equal blocks having equal symbols. More pieces mean more
calls at run time; fewer pieces mean that less is shared. Joining two symbols that only occur side by side costs nothing; any
other join makes a new thing to compile, and is worth it only for small blocks.

What is joined does not depend on how often a block occurs, as long as it occurs more than once: models that differ in
depth are cut alike, so they share their pieces.
"""

import collections
import dataclasses
from collections.abc import Sequence

PIECE_NODES = 8
"""What compiling one more distinct piece costs besides its nodes, in nodes: tracing, a module of its own, one more artifact."""

JOIN_NODES = 64
"""How many nodes may be compiled once more to spare a repeated boundary its call at run time: about a Transformer layer, which
has 40 to 100. So layers of common size are one piece each. A call costs the host 20 to 40 us a step (docs/regions.md)."""

JOIN_ONCE_NODES = 2
"""Likewise for a boundary that occurs once."""

SMALL_NODES = 16
"""Blocks of fewer nodes are taken several at a time."""

_ROUNDS = 64
"""Each round is linear. In practice it takes a handful; this bounds what odd graphs can cost."""


@dataclasses.dataclass(slots=True)
class _Item:
    """A run of blocks, [start, end), under one symbol."""

    symbol: int
    start: int
    end: int


def merge(blocks: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Runs [start, end) of ``blocks`` that become pieces, in order, covering all.

    ``blocks``: a symbol for each block. ``sizes``: by symbol, what compiling it costs, in nodes.
    """
    return _Merger(blocks, sizes).run()


class _Merger:
    def __init__(self, blocks: Sequence[int], sizes: Sequence[int]) -> None:
        self._size = list(sizes)
        self._made: dict[tuple[int, ...], int] = {}
        self._items = [_Item(symbol, at, at + 1) for at, symbol in enumerate(blocks)]

    def run(self) -> list[tuple[int, int]]:
        for _ in range(_ROUNDS):
            if not (self._join_inseparable() or self._join_small() or self._group_small()):
                break
        return [(item.start, item.end) for item in self._items]

    def _symbol(self, parts: tuple[int, ...]) -> int:
        if parts not in self._made:
            self._made[parts] = len(self._size)
            self._size.append(sum(self._size[part] for part in parts))
        return self._made[parts]

    def _join_inseparable(self) -> bool:
        """Chains of symbols that occur only one after the other become one symbol each."""
        symbols = [item.symbol for item in self._items]
        after: dict[int | None, dict[int | None, None]] = collections.defaultdict(dict)
        before: dict[int | None, dict[int | None, None]] = collections.defaultdict(dict)
        for left, right in zip([None, *symbols], [*symbols, None], strict=True):
            after[left][right] = None
            before[right][left] = None
        inseparable = {
            left
            for left, (right, *others) in after.items()
            if not others and right is not None and right != left and list(before[right]) == [left]
        }
        return self._join([item.symbol in inseparable for item in self._items])

    def _join(self, with_next: Sequence[bool]) -> bool:
        joined: list[_Item] = []
        group: list[_Item] = []
        for item, goes_on in zip(self._items, with_next, strict=True):
            group.append(item)
            if not goes_on:
                joined.append(self._one(group))
                group = []
        changed = len(joined) < len(self._items)
        self._items = joined
        return changed

    def _one(self, group: list[_Item]) -> _Item:
        if len(group) == 1:
            return group[0]
        return _Item(self._symbol(tuple(item.symbol for item in group)), group[0].start, group[-1].end)

    def _join_small(self) -> bool:
        """Pairs that are worth joining, the best first; a symbol takes part in one of them a round."""
        occurs = collections.Counter(item.symbol for item in self._items)
        pairs: collections.Counter[tuple[int, int]] = collections.Counter()
        for left, right in zip(self._items, self._items[1:], strict=False):
            if left.symbol != right.symbol:
                pairs[left.symbol, right.symbol] += 1
        worth = {pair: self._worth(pair, count, occurs) for pair, count in pairs.items()}
        chosen: set[tuple[int, int]] = set()
        taken: set[int] = set()
        for pair in sorted(worth, key=lambda pair: -worth[pair]):  # stable: of equals the first in the graph
            if worth[pair] > 0 and taken.isdisjoint(pair):
                chosen.add(pair)
                taken.update(pair)
        symbols = [item.symbol for item in self._items]
        return bool(chosen) and self._join([pair in chosen for pair in zip(symbols, [*symbols[1:], -1], strict=True)])

    def _worth(self, pair: tuple[int, int], count: int, occurs: collections.Counter[int]) -> int:
        left, right = pair
        cost = self._size[left] + self._size[right] + PIECE_NODES
        cost -= sum(self._size[side] + PIECE_NODES for side in pair if occurs[side] == count)
        return (JOIN_NODES if count > 1 else JOIN_ONCE_NODES) - cost

    def _group_small(self) -> bool:
        """Small blocks that follow themselves are taken several at a time."""
        with_next = [False] * len(self._items)
        start = 0
        for at in range(1, len(self._items) + 1):
            if at < len(self._items) and self._items[at].symbol == self._items[start].symbol:
                continue
            together = -(-SMALL_NODES // max(1, self._size[self._items[start].symbol]))
            groups = (at - start) // together
            if together > 1 and groups > 1:
                for place in range(start, start + groups * together):
                    with_next[place] = (place - start) % together != together - 1
            start = at
        return self._join(with_next)
