"""The key of one call of the seam, computed alike by the rank that has the graph and the worker that was sent it."""

import dataclasses

from inductord.compiler.adapter import ambient, fingerprint, placement, toolchain
from inductord.compiler.adapter.placement import Placement
from inductord.compiler.adapter.seam import GraphCall
from inductord.compiler.keys import Key, make_key
from inductord.v1.compiler_pb2 import Toolchain


@dataclasses.dataclass(frozen=True, slots=True)
class Identified:
    """A key, and what it was computed under."""

    key: Key
    ambient: ambient.Ambient
    toolchain: Toolchain
    placement: Placement


def identify(call: GraphCall, cxx_elsewhere: str = "") -> Identified:
    """The key of a graph in this process.

    Args:
        call: the graph.
        cxx_elsewhere: identity of the daemon's C++ compiler, for a rank that has none.

    Raises:
        Bypass: PyTorch cannot hash something in the graph.
        placement.Unsupported: no worker can play its devices.
    """
    settings = ambient.describe()
    where = placement.of(call)
    tools = toolchain.describe(cxx_elsewhere, where)
    parts, words = fingerprint.parts(call, where)
    return Identified(make_key(parts, settings, tools, words), settings, tools, where)
