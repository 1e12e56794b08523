"""A piece as a graph module of its own.

Names in it are made up from places in the piece alone, so equal pieces of any graph give the same text.
"""

import operator

from torch import fx

from inductord.compiler.regions.plan import Piece


def extract(graph: fx.GraphModule, piece: Piece) -> fx.GraphModule:
    """``piece`` of ``graph``: takes ``piece.inputs`` in order, returns a tuple of ``piece.outputs`` in order. Nodes keep
    their ``meta``, placeholders that of the value they stand for. Modules that it calls are shared with ``graph``."""
    found = {node.name: node for node in graph.graph.nodes}
    made = fx.Graph()
    attributes: dict[str, object] = {}
    copies: dict[fx.Node, fx.Node] = {}

    for place, name in enumerate(piece.inputs):
        source = found[name]
        copies[source] = made.create_node("placeholder", f"input_{place}", name=f"input_{place}")
        copies[source].meta = dict(source.meta)
    for place, name in enumerate(piece.nodes):
        source = found[name]
        target = source.target
        if source.op in ("get_attr", "call_module"):
            held, target = str(target), f"held_{place}"
            attributes[target] = operator.attrgetter(held)(graph)
        copies[source] = made.create_node(
            source.op,
            target,
            fx.map_arg(source.args, copies.__getitem__),
            fx.map_arg(source.kwargs, copies.__getitem__),
            name=f"node_{place}",
        )
        copies[source].meta = dict(source.meta)
    made.output(tuple(copies[found[name]] for name in piece.outputs))
    return fx.GraphModule(attributes, made, class_name="Piece")
