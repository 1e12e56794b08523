"""The doors for callers of AOTAutograd: compilers with the signature that ``aot_function`` and its relatives ask for.

Each takes a graph as AOTAutograd made it, and gives what Inductor's own compile of that graph gives, compiled once per node.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductord.compiler import routing
from inductord.compiler.adapter import doors
from inductord.v1.compiler_pb2 import GraphKind

Compiled = Callable[..., Any]


def fw_compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """Compile a forward graph: ``aot_function(f, fw_compiler=inductord.fw_compiler, bw_compiler=inductord.bw_compiler)``.

    The result takes one list of inputs, which it empties, and returns the outputs in order, as AOTAutograd asks of a
    compiler (``_boxed_call``). Outputs have the strides that they have in the graph.

    Args:
        gm: a graph of aten operators that returns a tuple or list. Inductor lacks some operators that have a decomposition:
            give AOTAutograd ``decompositions=inductord.decompositions()``.
        example_inputs: its inputs, real or fake tensors and symbolic sizes. Real ones are looked at, not used.

    Raises:
        Whatever Inductor raises for the graph.
    """
    return _compile(gm, example_inputs, GraphKind.GRAPH_KIND_FORWARD)


def bw_compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """Compile a backward graph; otherwise as ``fw_compiler``."""
    return _compile(gm, example_inputs, GraphKind.GRAPH_KIND_BACKWARD)


def inference_compiler(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
    """Compile a graph that nothing is differentiated through; otherwise as ``fw_compiler``. It also serves graphs of
    ``aot_export_module`` and ``aot_export_joint_simple``."""
    return _compile(gm, example_inputs, GraphKind.GRAPH_KIND_INFERENCE)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """The decompositions that Inductor asks AOTAutograd for, a new table that the caller may change."""
    return doors.decompositions()


def _compile(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], kind: GraphKind) -> Compiled:
    with routing.asked():
        return doors.compile_graph(gm, example_inputs, kind)
