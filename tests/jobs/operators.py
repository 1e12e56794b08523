"""A graph with an operator of the user, on a rank that has it and on a worker that does not: both play in this process.

Prints what the key is on either side, what it is when the schema is another, and what is left behind.
"""

import json
from typing import Any

import torch
from keys import capture
from torch._higher_order_ops.effects import _EffectType, _get_effect, _register_effectful_op
from torch.fx.node import _side_effectful_functions, has_side_effect

from inductord.compiler import graph_key
from inductord.compiler.adapter import operators, tracing, wire
from inductord.compiler.adapter.seam import GraphCall

seen: dict[str, Any] = {}
sent: dict[str, bytes] = {}


def calling(x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = torch.ops.inductord_jobs.scaled(x.sin(), 2.0)
    return out.cos()


def on_a_rank(
    name: str,
    schema: str,
    tags: tuple[torch.Tag, ...] = (),
    *,
    side_effect: bool = False,
    ordered: bool = False,
    out: str = "",
) -> None:
    """Define the operator, note the key of a graph with it, and send the graph; then forget the operator. ``out``: schema of
    the variant that writes into memory that it is given."""
    library = torch.library.Library("inductord_jobs", "FRAGMENT")
    library.define(schema, tags=tags)
    if out:
        library.define(out, tags=(torch.Tag.out_variant,))
    torch.library.register_fake("inductord_jobs::scaled", lambda x, *_: torch.empty_like(x), lib=library)
    if side_effect:
        has_side_effect(torch.ops.inductord_jobs.scaled.default)

    def look(call: GraphCall) -> None:
        seen[name] = dict(graph_key.identify(call).key.parts)
        sent[name] = wire.dumps(call)

    effect = _register_effectful_op(torch.ops.inductord_jobs.scaled.default, _EffectType.ORDERED) if ordered else None
    capture(look, calling, torch.randn(8))
    if effect is not None:
        effect.destroy()
    if side_effect:
        _side_effectful_functions.discard(torch.ops.inductord_jobs.scaled.default)
    library._destroy()


def on_a_worker(name: str) -> None:
    """Note the key of what was sent, in a process that does not have the operator."""
    marked = len(_side_effectful_functions)
    seen["there before"] = hasattr(torch.ops.inductord_jobs, "scaled")
    with operators.scope():
        mode = tracing.fresh_fake_mode()
        travelled = wire.loads(sent[name], mode)
        with tracing.restored(mode, travelled.donated_inputs):
            seen[f"worker: {name}"] = dict(graph_key.identify(travelled.call()).key.parts)
            seen[f"impure: {name}"] = [
                str(node.target) for node in travelled.gm.graph.nodes if node.op == "call_function" and node.is_impure()
            ]
            seen[f"overloads: {name}"] = torch.ops.inductord_jobs.scaled.overloads()
            seen[f"effect: {name}"] = str(_get_effect(torch.ops.inductord_jobs.scaled.default))
            seen[f"as noted: {name}"] = asked(mode, 8)
            seen["of another size"] = asked(mode, 9)
    seen["there after"] = hasattr(torch.ops.inductord_jobs, "scaled")
    seen["effect after"] = str(_get_effect("inductord_jobs::scaled"))
    seen["marked after"] = len(_side_effectful_functions) - marked


def asked(mode: Any, size: int) -> Any:
    """The shape that the declared operator says it returns, or its refusal."""
    with mode:
        try:
            return list(torch.ops.inductord_jobs.scaled(torch.empty(size), 2.0).shape)
        except operators.NotDeclarable as refused:
            return str(refused)


def main() -> None:
    on_a_rank("rank", "scaled(Tensor x, float by) -> Tensor")
    on_a_worker("rank")
    on_a_rank("side effect", "scaled(Tensor x, float by) -> Tensor", side_effect=True)
    on_a_worker("side effect")
    on_a_rank("ordered", "scaled(Tensor x, float by) -> Tensor", ordered=True)
    on_a_worker("ordered")
    on_a_rank(
        "out variant",
        "scaled(Tensor x, float by) -> Tensor",
        out="scaled.out(Tensor x, float by, *, Tensor(a!) out) -> Tensor(a!)",
    )
    on_a_worker("out variant")
    on_a_rank("other schema", "scaled(Tensor x, float by, bool exactly=False) -> Tensor")
    on_a_rank("other tags", "scaled(Tensor x, float by) -> Tensor", (torch.Tag.needs_fixed_stride_order,))
    print(json.dumps(seen))


main()
