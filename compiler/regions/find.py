"""Finds the repeated pieces of a Dynamo graph and decides where to cut it.

1. `facts` reads the graph into integers.
2. `cuts` says where a cut is possible and what it loses.
3. The graph is cut wherever nothing is lost; `canonical` tells which of the blocks are equal; `merge` joins blocks to pieces.
4. When that finds too little, the same with all cuts that are possible.

The result depends on the graph alone, so all ranks cut alike. The cost is nearly linear in the size of the graph.
"""

import collections
from collections.abc import Hashable, Sequence

from torch import fx

from inductord.compiler.regions import canonical, cuts, facts, merge
from inductord.compiler.regions.facts import Facts, Role
from inductord.compiler.regions.plan import Piece, Plan, Whole
from inductord.compiler.regions.reasons import WholeReason

MINIMUM_NODES = 24
"""Fewer nodes than this saved, and cutting costs more than it gives: about half a Transformer layer."""

MINIMUM_SHARE = 0.15
"""Likewise for what is saved as a share of the graph: the rest of the cold start hides it."""

BUCKET_SHARE = 0.5
"""Likewise where the graph is a bucket of DistributedDataParallel: each bucket has a beginning and an end of its own, and
with a few layers between them, more pieces for every rank to trace and load cost all that is gained."""

NEGLIGIBLE_LOSS = 1 / 64
"""A cut loses nothing worth counting below this share of a typical result of a library call, such as a row's statistics."""


def plan(graph: fx.GraphModule, *, minimum: int = MINIMUM_NODES, share: float = MINIMUM_SHARE) -> Plan | Whole:
    """How to cut ``graph``, or why not to.

    ``graph``: as Dynamo gives it to a backend, with ``example_value`` in the ``meta`` of its nodes. It is not changed.
    ``minimum``: how many nodes must be saved for a cut to pay; with 0 it need not pay.
    ``share``: likewise, how many of all nodes.
    """
    known = facts.read(graph)
    row = cuts.survey(known)
    total = _size(known, row.nodes)
    if total < 2 * max(minimum, 1):
        return Whole(WholeReason.TOO_SMALL, "the graph has too few nodes for repeats to matter")
    bound = _lossless(known, row)
    best: tuple[int, Plan] | None = None
    for note, allowed in (
        (
            "cut at values that are in memory anyway",
            [ok and loss <= bound for ok, loss in zip(row.legal, row.loss, strict=True)],
        ),
        ("cut between repeats; some fusion across the cuts is lost", row.legal),
    ):
        saved, found = _cut(known, row, allowed, note)
        if best is None or saved > best[0]:
            best = (saved, found)
        if saved >= max(minimum, 1) and (not minimum or saved >= share * total):
            return found
    assert best is not None
    saved, found = best
    if not minimum and found.distinct < len(found.pieces):
        return found
    if found.distinct == len(found.pieces):
        return Whole(WholeReason.NO_REPEATS, f"no two pieces of the {total} nodes are equal")
    return Whole(WholeReason.SAVES_TOO_LITTLE, f"cutting would save {max(saved, 0)} of {total} nodes, too few to pay")


def _size(known: Facts, nodes: Sequence[int]) -> int:
    return sum(known.size[node] for node in nodes)


def _lossless(known: Facts, row: cuts.Row) -> float:
    """Up to how many bytes a cut loses nothing worth counting."""
    typical = sorted(known.num_bytes[node] for node in row.nodes if known.materialised[node])
    return typical[len(typical) // 2] * NEGLIGIBLE_LOSS if typical else 0


def _cut(known: Facts, row: cuts.Row, allowed: Sequence[bool], note: str) -> tuple[int, Plan]:
    """The plan with the given cuts at most, and how many nodes it saves after what more pieces cost."""
    starts = [0, *(at for at in range(1, len(row.nodes)) if allowed[at])]
    blocks = [row.nodes[start:end] for start, end in zip(starts, [*starts[1:], len(row.nodes)], strict=True)]
    symbols: dict[Hashable, int] = {}
    sizes: list[int] = []
    named: list[int] = []
    for block in blocks:
        symbol = symbols.setdefault(canonical.run_of(known, block).key, len(sizes))
        if symbol == len(sizes):
            sizes.append(_size(known, block))
        named.append(symbol)
    runs = [[node for block in blocks[start:end] for node in block] for start, end in merge.merge(named, sizes)]
    runs = _freed(known, row, runs)
    found = _pieces(known, runs)
    first = {piece.shape: run for piece, run in reversed(list(zip(found, runs, strict=True)))}
    compiled = sum(_size(known, run) for run in first.values()) + merge.PIECE_NODES * (len(first) - 1)
    return _size(known, row.nodes) - compiled, Plan(tuple(found), len(first), note)


def _freed(known: Facts, row: cuts.Row, runs: list[list[int]]) -> list[list[int]]:
    """``runs``, with repeated ones cut off from the ends of those that occur once, such as a first layer that has grown
    together with what is before it. What such a cut loses is lost once in the graph, not in each layer."""
    place = {node: at for at, node in enumerate(row.nodes)}
    keys = [canonical.run_of(known, run).key for run in runs]
    occurs = collections.Counter(keys)
    large = {
        key: len(run)
        for key, run in zip(keys, runs, strict=True)
        if occurs[key] > 1 and _size(known, run) > merge.SMALL_NODES
    }
    freed: list[list[int]] = []
    for key, run in zip(keys, runs, strict=True):
        lengths = {length for length in large.values() if length < len(run) and occurs[key] == 1}
        for length in sorted(lengths, reverse=True):
            if row.legal[place[run[-length]]] and canonical.run_of(known, run[-length:]).key in large:
                freed += [run[:-length], run[-length:]]
                break
            if row.legal[place[run[length]]] and canonical.run_of(known, run[:length]).key in large:
                freed += [run[:length], run[length:]]
                break
        else:
            freed.append(run)
    return freed


def _pieces(known: Facts, runs: Sequence[Sequence[int]]) -> list[Piece]:
    home = {node: at for at, run in enumerate(runs) for node in run}
    roots = cuts.roots_of(known)
    wanted: dict[int, dict[int, None]] = collections.defaultdict(dict)
    for result in known.results:
        if known.roles[result] is Role.ATTACHED:
            # A view that the graph returns is made where its base is made.
            wanted[max((home[root] for root in roots[result] if root in home), default=len(runs) - 1)][result] = None
    made = [canonical.run_of(known, run, wanted[at]) for at, run in enumerate(runs)]
    used = {each for run in made for each in run.inputs} | {
        each for each in known.results if known.roles[each] is Role.REAL
    }
    shapes: dict[Hashable, int] = {}
    pieces = []
    for at, run in enumerate(made):
        outputs = [
            node for node in run.nodes if node in wanted[at] or (node in used and known.roles[node] is Role.REAL)
        ]
        places = tuple(place for place, node in enumerate(run.nodes) if node in set(outputs))
        shape = shapes.setdefault((run.key, places), len(shapes))
        pieces.append(
            Piece(
                tuple(known.names[node] for node in run.nodes),
                tuple(known.names[node] for node in run.inputs),
                tuple(known.names[node] for node in outputs),
                shape,
            )
        )
    return pieces
