"""Dynamo-like graphs made by hand, with the values that Dynamo would note on their nodes, and graphs from Dynamo itself."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode


def captured(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[fx.GraphModule]:
    """The graphs that Dynamo makes of one call, in order."""
    graphs: list[fx.GraphModule] = []

    def backend(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    torch.compile(function, backend=backend)(*args, **kwargs)
    return graphs


class Builder:
    """A graph under construction whose nodes hold real values, so that storage tells what is a view of what."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.inputs: list[Any] = []
        self._first_call: fx.Node | None = None

    def placeholder(self, value: Any) -> fx.Node:
        """One more input. All stand before the calls, as in a Dynamo graph."""
        with self.graph.inserting_before(self._first_call):
            node = self.graph.placeholder(f"input_{len(self.inputs)}")
        node.meta["example_value"] = value
        self.inputs.append(value)
        return node

    def call(self, target: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> fx.Node:
        """One more call, computed at once."""
        make = self.graph.call_method if isinstance(target, str) else self.graph.call_function
        node = make(target, args, kwargs)  # type: ignore[arg-type]
        self._first_call = self._first_call or node
        shown, named = (fx.map_arg(each, lambda used: used.meta["example_value"]) for each in (args, kwargs))
        node.meta["example_value"] = (
            getattr(shown[0], target)(*shown[1:], **named) if isinstance(target, str) else target(*shown, **named)
        )
        return node

    def finish(self, *results: fx.Node) -> fx.GraphModule:
        self.graph.output(results)
        self.graph.lint()
        return fx.GraphModule(torch.nn.Module(), self.graph)


Layer = Callable[[Builder, fx.Node], fx.Node]
SIDE = 4
"""All values of hand-made layers are square matrices of this size."""


def square(gradient: bool = True) -> torch.Tensor:
    return torch.randn(SIDE, SIDE, requires_grad=gradient)


def stack(layers: Sequence[Layer]) -> tuple[fx.GraphModule, list[Any]]:
    """The layers one after the other, between a start and an end that are like none of them; and inputs."""
    builder = Builder()
    value = builder.call(torch.tanh, builder.placeholder(square()))
    for layer in layers:
        value = layer(builder, value)
    return builder.finish(builder.call("sum", builder.call(torch.cos, value))), builder.inputs


def decoder(layers: int, width: int = 8) -> fx.GraphModule:
    """A Llama-shaped graph of about 49 nodes a layer, with fake values, in seconds also for hundreds of layers."""
    graph = fx.Graph()
    inputs: list[torch.Tensor] = []

    def weight(*shape: int) -> fx.Node:
        inputs.append(torch.randn(shape, requires_grad=True))
        return graph.placeholder(f"weight_{len(inputs)}")

    hidden = graph.placeholder("hidden")
    inputs.append(torch.randn(2, 4, width, requires_grad=True))
    cos, sin = weight(4, width // 4), weight(4, width // 4)
    norms = [(weight(width), weight(width)) for _ in range(layers)]
    square = [[weight(width, width) for _ in range(4)] for _ in range(layers)]
    wide = [(weight(2 * width, width), weight(2 * width, width), weight(width, 2 * width)) for _ in range(layers)]
    call, method = graph.call_function, graph.call_method

    def norm(value: fx.Node, scale: fx.Node) -> fx.Node:
        mean = method("mean", (method("pow", (value, 2)), -1), {"keepdim": True})
        return call(torch.mul, (call(torch.mul, (value, call(torch.rsqrt, (call(torch.add, (mean, 1e-5)),)))), scale))

    def heads(value: fx.Node, by: fx.Node) -> fx.Node:
        return method("transpose", (method("view", (call(F.linear, (value, by)), 2, 4, 2, width // 2)), 1, 2))

    def rotate(value: fx.Node) -> fx.Node:
        halves = method("chunk", (value, 2, -1))
        left, right = (call(operator.getitem, (halves, at)) for at in (0, 1))
        turned = call(torch.sub, (call(torch.mul, (left, cos)), call(torch.mul, (right, sin))))
        other = call(torch.add, (call(torch.mul, (right, cos)), call(torch.mul, (left, sin))))
        return call(torch.cat, ((turned, other), -1))

    for (before, between), (query, key, value, out), (gate, up, down) in zip(norms, square, wide, strict=True):
        normed = norm(hidden, before)
        attended = call(
            F.scaled_dot_product_attention,
            (rotate(heads(normed, query)), rotate(heads(normed, key)), heads(normed, value)),
        )
        flat = method("reshape", (method("transpose", (attended, 1, 2)), 2, 4, width))
        hidden = call(torch.add, (hidden, call(F.linear, (flat, out))))
        normed = norm(hidden, between)
        gated = call(torch.mul, (call(F.silu, (call(F.linear, (normed, gate)),)), call(F.linear, (normed, up))))
        hidden = call(torch.add, (hidden, call(F.linear, (gated, down))))
    graph.output((hidden,))
    module = fx.GraphModule(torch.nn.Module(), graph)
    return note_values(module, inputs)


class _Noting(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        n.meta["example_value"] = result
        return result


def note_values(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> fx.GraphModule:
    """Notes on each node of ``module`` the fake value that it has for ``inputs``, as Dynamo does."""
    mode = FakeTensorMode()
    with mode:
        _Noting(module).run(*(mode.from_tensor(each) for each in inputs))
    return module
