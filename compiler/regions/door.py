"""Which graphs of Dynamo are compiled in pieces: asked for each, before AOTAutograd sees it.

Whatever goes wrong on this way ends in the compile of the whole graph, with the reason counted.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch

from inductord.compiler.adapter import aot
from inductord.compiler.adapter.seam import DynamoCall
from inductord.compiler.regions.compile import compile_regions
from inductord.compiler.regions.find import plan
from inductord.compiler.regions.plan import Plan, Whole
from inductord.compiler.regions.reasons import NotCut, WholeReason
from inductord.compiler.regions.render import render
from inductord.compiler.telemetry import Telemetry

log = logging.getLogger("inductord")


class Regions:
    """Decides about each graph of this process and keeps count."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def __call__(self, call: DynamoCall, whole: Callable[[], Any], wanted: str) -> Any:
        """The compiled graph, in pieces or whole; raises what PyTorch raises for the whole graph.

        Args:
            call: the graph.
            whole: compiles it as Inductor would.
            wanted: one of ``settings.REGIONS``.
        """
        if wanted == "off":
            self._telemetry.not_cut(None, "")
            return whole()
        composed = self._composed(call, wanted)
        return whole() if composed is None else composed

    def _composed(self, call: DynamoCall, wanted: str) -> Any:
        """The graph in pieces; None, with the reason counted, when it is to be compiled whole.

        No exception outlives this. Its traceback would hold the frames of all callers, and what these hold: DDPOptimizer
        relies on a local variable's end (``FakeifyFirstAOTInvocationGuard``).
        """
        try:
            pieces = _planned(call, wanted)
            if isinstance(pieces, NotCut):
                self._telemetry.not_cut(pieces.reason, str(pieces))
                return None
            composed = compile_regions(call.gm, call.example_inputs, pieces, call.inner, call.patches)
        except NotCut as reason:
            self._telemetry.not_cut(reason.reason, str(reason))
            return None
        except Exception as error:  # noqa: BLE001 - what PyTorch raises for a piece it may not raise for the whole
            self._telemetry.not_cut(WholeReason.ERROR, f"{type(error).__name__}: {error}")
            return None
        self._telemetry.composed(len(pieces.pieces), pieces.distinct)
        if log.isEnabledFor(logging.INFO):
            log.info("inductord: %s", render(call.gm, pieces))
        return composed


def _planned(call: DynamoCall, wanted: str) -> Plan | NotCut:
    if not isinstance(call.gm, torch.fx.GraphModule):
        return NotCut(WholeReason.MODE, f"it is a {type(call.gm).__name__}, not a graph of Dynamo")
    if (reason := aot.unsuitable(call.gm, call.patches)) is not None:
        return reason
    found = plan(call.gm) if wanted == "auto" else plan(call.gm, minimum=0)
    return NotCut(found.reason, found.message) if isinstance(found, Whole) else found
