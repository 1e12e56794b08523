"""Which graphs may not travel, and why. Prints the reason by case; null for those that may."""

import contextlib
import copy
import dataclasses
import json
import threading
from collections.abc import Callable

import torch
from keys import Change, capture, network
from torch._higher_order_ops.strict_mode import strict_mode_op
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

from inductord.compiler.adapter import bypass, fingerprint, opaque, placement, tracing, wire
from inductord.compiler.adapter.seam import GraphCall

seen: dict[str, str | None] = {}


class OwnChoices(InductorChoices):
    """A user's heuristics."""


def reason(call: GraphCall) -> str | None:
    try:
        bypass.check(call)
        fingerprint.parts(call, placement.of(call))
    except bypass.Bypass as why:
        return why.reason.value
    except placement.Unsupported:
        return "device_unsupported"
    return None


def under(name: str, change: Callable[[], Change] = contextlib.nullcontext) -> Callable[[GraphCall], None]:
    def look(call: GraphCall) -> None:
        with change():
            seen[name] = reason(call)

    return look


def on_another_device(call: GraphCall) -> None:
    seen["another device"] = reason(dataclasses.replace(call, example_inputs=[torch.empty(2, device="meta")]))


def with_a_lock(call: GraphCall) -> None:
    try:
        wire.dumps(dataclasses.replace(call, options={**call.options, "lock": threading.Lock()}))
    except wire.NotSerializable as why:
        seen["a lock"] = str(why)


def with_an_operator_of_its_own_kind(call: GraphCall) -> None:
    graph = copy.deepcopy(call.gm)
    with graph.graph.inserting_before(graph.graph.output_node()):
        graph.graph.call_function(strict_mode_op, (None, ()))
    seen["marked by nobody"] = reason(dataclasses.replace(call, gm=graph))


def holding_an_object(call: GraphCall) -> None:
    graph = copy.deepcopy(call.gm)
    graph.mesh = opaque.empty("a.Mesh")
    seen["holds an object"] = reason(dataclasses.replace(call, gm=graph))


def guards(call: GraphCall) -> None:
    """What a worker states about symbolic sizes holds for the rank's own sizes, and what does not hold is found out."""
    expression = tracing.guards_expression(tracing.current_fake_mode(), call.example_inputs)
    own = tracing.take_over_guards(expression, call.example_inputs)
    wrong = tracing.take_over_guards("1 > 2", call.example_inputs)
    seen["guards"] = json.dumps([bool(expression), own, wrong])


def branching(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return out + y.sum()


def main() -> None:
    inputs = torch.randn(8, 16), torch.randn(16, 4)
    cases: dict[str, Callable[[], Change]] = {
        "plain": contextlib.nullcontext,
        "debug trace": lambda: config.patch({"trace.enabled": True}),
        "ahead of time": lambda: V.set_aot_compilation(True),
        "own choices": lambda: V.set_choices_handler(OwnChoices()),
        "own pass": lambda: config.patch(post_grad_custom_post_pass=lambda graph: None),
    }
    for name, change in cases.items():
        capture(under(name, change), network, *inputs)
    capture(under("branch"), branching, *inputs)
    capture(with_an_operator_of_its_own_kind, branching, *inputs)
    capture(holding_an_object, network, *inputs)
    capture(on_another_device, network, *inputs)
    capture(with_a_lock, network, *inputs)
    capture(guards, network, *inputs, dynamic=True)
    print(json.dumps(seen))


main()
