"""A Dynamo graph in pieces: each distinct region goes through AOTAutograd and Inductor once, then all are composed.

What an earlier job traced is not traced again. For the rest AOTAutograd runs in this thread, region after region. The graphs
that it makes are begun at once and fetched at the end, so the pool compiles some while others are still traced, backward beside
forward.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductord.compiler import tickets
from inductord.compiler.adapter import aot, autograd
from inductord.compiler.cut_log import noting_keys
from inductord.compiler.regions.compose import TENSORS, Calls, Composed, Region, callable_of
from inductord.compiler.regions.cut import cut
from inductord.compiler.regions.link import link
from inductord.compiler.regions.memory import Known, Memory
from inductord.compiler.regions.plan import Plan
from inductord.compiler.regions.program import from_outside, make_program

log = logging.getLogger("inductord")


def compile_regions(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    plan: Plan,
    inner: aot.Inner,
    patches: dict[str, Any],
    memory: Memory | None = None,
) -> tuple[Callable[..., Sequence[Any]], list[list[str]]]:
    """Compile a graph by its plan. Leaves ``gm`` as it was.

    Returns what the job calls, and the keys that were asked for, by distinct piece in the order in which these first occur.

    Args:
        gm: the graph that Dynamo captured.
        example_inputs: its inputs as Dynamo gives them.
        plan: how it is cut.
        inner: Inductor's ``compile_fx_inner``, or a wrapper of it.
        patches: Inductor configuration of this graph.
        memory: regions that an earlier job traced; None to trace all.

    Raises:
        NotCut: it has to be compiled whole.
        Whatever PyTorch raises.
    """
    pieces = cut(gm, example_inputs, plan)
    names = [memory.name(source, patches) if memory else None for source in pieces.sources]
    traced: list[aot.Traced | Known] = []
    keys = []
    with aot.beside_ddp():
        for name, source in zip(names, pieces.sources, strict=True):
            with noting_keys() as asked:
                known = memory.recall(name, patches) if memory and name else None
                traced.append(
                    known or aot.trace(source.gm, source.example_inputs, source.static, inner, _begin, patches)
                )
            keys.append(asked)
    # Before anything is fetched: it may turn out that the regions do not go together.
    make_program(pieces.wiring, [each.convention for each in traced])
    regions: list[Known] = []
    for name, each in zip(names, traced, strict=True):
        if isinstance(each, Known):
            regions.append(each)
            continue
        compiled = Region(*aot.finish(each, inner, _compile, patches))
        regions.append(Known(compiled, each.convention))
        if memory and name:
            memory.keep(name, regions[-1])
    program = make_program(pieces.wiring, [each.convention for each in regions])
    outside = from_outside(program)
    composed = Composed(
        program=program,
        linked=link(program, TENSORS),
        forward=Calls([each.region.forward for each in regions], outside.forward),
        backward=Calls([each.region.backward for each in regions], outside.backward),
        constants=pieces.constants,
        returned=pieces.returned,
        autocast=autograd.autocast_is_on(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )
    return callable_of(composed), keys


def _begin(compile_now: Callable[[], Any]) -> Any:
    """A ticket for the graph, or the compiled graph where a cache of Inductor's had it."""
    with tickets.beginning():
        try:
            with aot.counted_once():
                return compile_now()
        except tickets.Begun as begun:
            return begun.ticket


def _compile(graph: aot.Graph, compile_now: Callable[[], Any]) -> Any:
    begun = graph.begun
    if begun is None:
        return compile_now()
    if not isinstance(begun, tickets.Ticket):
        return begun
    with tickets.fetching(begun):
        return compile_now()
