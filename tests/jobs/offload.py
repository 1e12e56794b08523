"""One real graph, and variants of it that break one stage of its way each, offered to the daemon of the environment.

Prints, by case, what came of it and the reason that was counted. Where plain Inductor would compile, "local" stands.
"""

import copy
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import torch
from keys import capture, network

from inductord.compiler.adapter.seam import GraphCall
from inductord.compiler.client import Client
from inductord.compiler.offload import Offload
from inductord.compiler.reporter import Reporter
from inductord.compiler.settings import from_environment
from inductord.compiler.telemetry import Telemetry


class Unpicklable:
    """Raises what no serialiser expects, when it travels."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise KeyError("a table of this process")


class Unreadable:
    """Raises what nobody expects, when it is looked at."""

    def __iter__(self) -> Any:
        raise LookupError("no inputs today")


def with_input(call: GraphCall, extra: object) -> GraphCall:
    return dataclasses.replace(call, example_inputs=[*call.example_inputs, extra])


def with_note(call: GraphCall) -> GraphCall:
    """What is noted on a node decides nothing and is in no key, but it travels."""
    graph = copy.deepcopy(call.gm)
    next(iter(graph.graph.nodes)).meta["note"] = Unpicklable()
    return dataclasses.replace(call, gm=graph)


BROKEN: dict[str, Callable[[GraphCall], GraphCall]] = {
    # First, so that the daemon has no artifact of its key yet and asks for the graph.
    "not serialisable": with_note,
    "whole": lambda call: call,
    "unreadable": lambda call: dataclasses.replace(call, example_inputs=Unreadable()),  # type: ignore[arg-type]
    "no key": lambda call: dataclasses.replace(call, options={**call.options, "is_inference": Unpicklable()}),
    "another device": lambda call: with_input(call, torch.empty(2, device="meta")),
}


def look(call: GraphCall) -> None:
    settings = from_environment()
    seen: dict[str, Any] = {}
    for name, broken in BROKEN.items():
        telemetry = Telemetry(settings)
        client = Client(settings.address)
        offload = Offload(settings, client, telemetry, Reporter(client, telemetry), lambda *_: None)
        result = offload(broken(call), lambda: "local")
        stats = telemetry.snapshot()
        seen[name] = {"result": str(result), "fallbacks": dict(stats.fallbacks), "requests": stats.requests}
    print(json.dumps(seen))


capture(look, network, torch.randn(6, 31), torch.randn(31, 5))
