"""Which graphs of Dynamo are compiled in pieces: asked for each, before AOTAutograd sees it.

Whatever goes wrong on this way ends in the compile of the whole graph, with the reason counted.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch

from inductord.compiler.adapter import aot
from inductord.compiler.adapter.seam import DynamoCall
from inductord.compiler.cut_log import noting_keys
from inductord.compiler.regions.compile import compile_regions
from inductord.compiler.regions.find import BUCKET_SHARE, MINIMUM_SHARE, plan
from inductord.compiler.regions.memory import Memory
from inductord.compiler.regions.plan import Plan, Whole
from inductord.compiler.regions.reasons import NotCut, RegionResult, WholeReason
from inductord.compiler.regions.render import describe, describe_whole, headline, left_out, piece_lines
from inductord.compiler.telemetry import Telemetry

log = logging.getLogger("inductord")


class Regions:
    """Decides about each graph of this process and keeps count."""

    def __init__(self, telemetry: Telemetry, memory: Memory) -> None:
        self._telemetry = telemetry
        self._memory = memory

    def __call__(self, call: DynamoCall, whole: Callable[[], Any], wanted: str) -> Any:
        """The compiled graph, in pieces or whole; raises what PyTorch raises for the whole graph.

        Args:
            call: the graph.
            whole: compiles it as Inductor would.
            wanted: one of ``settings.REGIONS``.
        """
        if wanted == "off":
            self._telemetry.not_cut(None, "")
            return self._whole(call, whole, RegionResult.OFF.value, "regions are off")
        composed = self._composed(call, wanted)
        return self._whole(call, whole, *composed) if isinstance(composed, tuple) else composed

    def _whole(self, call: DynamoCall, whole: Callable[[], Any], reason: str, message: str) -> Any:
        calls = _calls(call.gm)  # now: Inductor changes the graph
        with noting_keys() as keys:
            try:
                return whole()
            finally:
                self._telemetry.cuts.add(describe_whole(calls, reason, message, keys))

    def _composed(self, call: DynamoCall, wanted: str) -> Any:
        """The graph in pieces; a reason and a message, counted, when it is to be compiled whole.

        No exception outlives this but the one by which PyTorch has Dynamo trace anew. Its traceback would hold the frames of
        all callers, and what these hold: DDPOptimizer relies on a local variable's end (``FakeifyFirstAOTInvocationGuard``).
        """
        try:
            pieces = _planned(call, wanted)
            if isinstance(pieces, NotCut):
                return self._not_cut(pieces.reason, str(pieces))
            composed, keys = compile_regions(
                call.gm, call.example_inputs, pieces, call.inner, call.patches, self._memory
            )
        except NotCut as reason:
            return self._not_cut(reason.reason, str(reason))
        except aot.BeginAgain:
            raise  # the next graph will be asked about
        except Exception as error:  # noqa: BLE001 - what PyTorch raises for a piece it may not raise for the whole
            return self._not_cut(WholeReason.ERROR, f"{type(error).__name__}: {error}")
        self._telemetry.composed(len(pieces.pieces), pieces.distinct)
        cut = describe(_calls(call.gm), pieces, keys)
        self._telemetry.cuts.add(cut)
        if log.isEnabledFor(logging.INFO):
            lines = filter(None, (*piece_lines(cut), left_out(cut)))
            log.info("inductord: %s", "\n  ".join((headline(cut), *lines)))
        return composed

    def _not_cut(self, reason: WholeReason, message: str) -> tuple[str, str]:
        self._telemetry.not_cut(reason, message)
        return reason.value, message


def _calls(graph: Any) -> int:
    """How many calls a graph has; 0 when it is none of Dynamo's."""
    if not isinstance(graph, torch.fx.GraphModule):
        return 0
    return sum(node.op.startswith("call_") for node in graph.graph.nodes)


def _planned(call: DynamoCall, wanted: str) -> Plan | NotCut:
    if not isinstance(call.gm, torch.fx.GraphModule):
        return NotCut(WholeReason.MODE, f"it is a {type(call.gm).__name__}, not a graph of Dynamo")
    if (reason := aot.unsuitable(call.gm, call.patches)) is not None:
        return reason
    if wanted == "force":
        found = plan(call.gm, minimum=0)
    else:
        found = plan(call.gm, share=BUCKET_SHARE if aot.is_bucket_of_ddp() else MINIMUM_SHARE)
    return NotCut(found.reason, found.message) if isinstance(found, Whole) else found
