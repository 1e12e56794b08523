"""How a Dynamo graph is cut: the contract between who finds the pieces and who compiles and composes them. No torch here.

Names are node names of the Dynamo graph. The pieces of a plan run one after the other, in the order of the graph.

Every call node is in at least one piece. Only nodes that are free and pure are in several: views of values, arithmetic on
symbolic sizes, and the enter and exit of a context such as autocast. Each piece that needs one computes it by itself, so
no alias of a value crosses a cut. A ``get_attr`` of a submodule, as higher-order operators have it, is among the nodes of the
piece that uses it; a ``get_attr`` of a tensor is an input.
"""

import dataclasses

from inductord.compiler.regions.reasons import WholeReason


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A run of nodes that is compiled by itself.

    ``nodes``: in an order in which they can run; equal pieces list corresponding nodes at the same place.
    ``inputs``: values from outside (placeholders, ``get_attr`` of tensors, nodes of earlier pieces), each once, in an order
    that depends on structure alone.
    ``outputs``: nodes of this piece that are used outside, likewise.
    ``shape``: pieces with equal ``shape`` have the same structure, so one compile serves them all.
    """

    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shape: int


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """``pieces`` in the order in which they run; ``distinct``: how many shapes they have; ``note``: one sentence for people."""

    pieces: tuple[Piece, ...]
    distinct: int
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class Whole:
    """The graph is not cut; ``message`` is one sentence for people."""

    reason: WholeReason
    message: str
