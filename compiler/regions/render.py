"""A plan in words, for people: how often each piece occurs, how much there is to compile, and what crosses the cuts."""

import collections

from torch import fx

from inductord.compiler.regions.plan import Piece, Plan

_MOST_NAMES = 6
_MOST_SHAPES = 40


def render(graph: fx.GraphModule, plan: Plan) -> str:
    """Lines of text: one for the whole, one a distinct piece, in the order in which they first occur."""
    nodes = sum(node.op.startswith("call_") for node in graph.graph.nodes)
    occurs = collections.Counter(piece.shape for piece in plan.pieces)
    first: dict[int, Piece] = {}
    for piece in plan.pieces:
        first.setdefault(piece.shape, piece)
    left = sum(len(piece.nodes) for piece in first.values())
    pieces = f"{len(plan.pieces)} pieces, {plan.distinct} of them distinct with {left} nodes"
    lines = [f"a graph of {nodes} nodes in {pieces}; {plan.note}"]
    lines += [_line(piece, occurs[shape]) for shape, piece in list(first.items())[:_MOST_SHAPES]]
    if len(first) > _MOST_SHAPES:
        lines.append(f"  and {len(first) - _MOST_SHAPES} more distinct pieces")
    return "\n".join(lines)


def _line(piece: Piece, times: int) -> str:
    named = ", ".join(piece.outputs[:_MOST_NAMES]) + (", …" if len(piece.outputs) > _MOST_NAMES else "")
    return f"  {piece.shape}: {times} times, {len(piece.nodes)} nodes, {piece.nodes[0]} to {piece.nodes[-1]}; hands on {named}"
