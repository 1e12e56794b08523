"""A cut as a message for the daemon, and in words: how often each piece occurs, how much there is to compile, and what
crosses the cuts. No torch here: the command line says the same words."""

import collections
from collections.abc import Iterable, Sequence

from inductord.compiler.regions.plan import Piece, Plan
from inductord.v1.cut_pb2 import CutPiece, GraphCut

_MOST_NAMES = 6
_MOST_PIECES = 40
_NAME_BYTES = 48
_NOTE_BYTES = 600


def describe(nodes: int, plan: Plan, keys: Sequence[Iterable[str]]) -> GraphCut:
    """A graph that was cut.

    Args:
        nodes: calls in the graph.
        plan: its pieces.
        keys: those that were asked for (64 hex digits), by distinct piece in the order in which these first occur.
    """
    occurs = collections.Counter(piece.shape for piece in plan.pieces)
    first: dict[int, Piece] = {}
    for piece in plan.pieces:
        first.setdefault(piece.shape, piece)
    return GraphCut(
        nodes=nodes,
        note=_bounded(plan.note, _NOTE_BYTES),
        pieces=len(plan.pieces),
        distinct=plan.distinct,
        distinct_nodes=sum(len(piece.nodes) for piece in first.values()),
        distinct_pieces=[
            CutPiece(
                times=occurs[piece.shape],
                nodes=len(piece.nodes),
                first=_bounded(piece.nodes[0], _NAME_BYTES),
                last=_bounded(piece.nodes[-1], _NAME_BYTES),
                outputs=len(piece.outputs),
                output_names=[_bounded(name, _NAME_BYTES) for name in piece.outputs[:_MOST_NAMES]],
                keys=_digests(asked),
            )
            for piece, asked in list(zip(first.values(), keys, strict=True))[:_MOST_PIECES]
        ],
    )


def describe_whole(nodes: int, reason: str, note: str, keys: Iterable[str]) -> GraphCut:
    """A graph that was compiled whole. ``reason``: a ``WholeReason``, or "off"; the rest as for ``describe``."""
    return GraphCut(nodes=nodes, whole=reason, note=_bounded(note, _NOTE_BYTES), keys=_digests(keys))


def _bounded(text: str, most: int) -> str:
    """``text`` as a message may have it, whatever a script called its modules or an error says."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _digests(keys: Iterable[str]) -> list[bytes]:
    # An inference graph has one key, a trained one two; a graph that is asked for again and again needs no more.
    return [bytes.fromhex(key) for key in dict.fromkeys(keys)][:_MOST_NAMES]


def headline(cut: GraphCut) -> str:
    """The whole in one line."""
    if cut.whole:
        return f"a graph of {cut.nodes} nodes, compiled whole: {cut.note} ({cut.whole})"
    pieces = f"{cut.pieces} pieces, {cut.distinct} of them distinct with {cut.distinct_nodes} nodes"
    return f"a graph of {cut.nodes} nodes in {pieces}; {cut.note}"


def piece_lines(cut: GraphCut) -> list[str]:
    """A line for each distinct piece that ``cut`` has."""
    return [_line(number, piece) for number, piece in enumerate(cut.distinct_pieces)]


def left_out(cut: GraphCut) -> str:
    """What ``piece_lines`` lacks; empty when it lacks nothing."""
    more = cut.distinct - len(cut.distinct_pieces)
    return f"and {more} more distinct pieces" if more > 0 else ""


def _line(number: int, piece: CutPiece) -> str:
    named = ", ".join(piece.output_names) + (", …" if piece.outputs > len(piece.output_names) else "")
    times = "once" if piece.times == 1 else f"{piece.times} times"
    return f"{number}: {times}, {piece.nodes} nodes, {piece.first} to {piece.last}; hands on {named}"
