"""Uses AOTAutograd's own entry points with inductord's compilers (``--inductord``) or Inductor's compile of the same graphs.

Prints, by entry point, exact digests of outputs and gradients, and which compiler was called for how many graphs.
"""

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from functorch.compile import (
    aot_function,
    aot_module,
    aot_module_simplified,
    default_partition,
    min_cut_rematerialization_partition,
)
from torch import nn
from torch._dynamo.backends.common import aot_autograd, fake_tensor_unsupported
from torch._functorch.aot_autograd import aot_export_joint_simple, aot_export_module

import inductord
from inductord.compiler.adapter import doors
from inductord.v1.compiler_pb2 import GraphKind

Compiler = Callable[[torch.fx.GraphModule, Any], Callable[..., Any]]


def digest(values: Iterable[torch.Tensor]) -> str:
    content = hashlib.sha256()
    for value in values:
        content.update(repr((value.dtype, tuple(value.shape), value.stride())).encode())
        content.update(value.detach().contiguous().numpy().tobytes())
    return content.hexdigest()


def random(*shape: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=grad)


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.LayerNorm(2 * width))

    def forward(self, value: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.layers(value),)


class Doors:
    """The compilers under test, each call counted."""

    def __init__(self, through: bool) -> None:
        self.calls: Counter[str] = Counter()
        kinds = {
            "fw": (inductord.fw_compiler, GraphKind.GRAPH_KIND_FORWARD),
            "bw": (inductord.bw_compiler, GraphKind.GRAPH_KIND_BACKWARD),
            "inference": (inductord.inference_compiler, GraphKind.GRAPH_KIND_INFERENCE),
        }
        self.fw, self.bw, self.inference = (
            self._counted(
                name, door if through else lambda gm, inputs, kind=kind: doors.compile_graph(gm, inputs, kind)
            )
            for name, (door, kind) in kinds.items()
        )

    def _counted(self, name: str, compiler: Compiler) -> Compiler:
        def compile_one(gm: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
            self.calls[name] += 1
            return compiler(gm, inputs)

        return compile_one

    @property
    def both(self) -> dict[str, Any]:
        return {"fw_compiler": self.fw, "bw_compiler": self.bw, "decompositions": inductord.decompositions()}

    def backend(self, **more: Any) -> Any:
        return aot_autograd(**self.both, inference_compiler=self.inference, **more)


def trained(model: nn.Module, call: Callable[..., Any], value: torch.Tensor) -> list[torch.Tensor]:
    results = call(value)
    result = results[0]
    result.square().sum().backward()
    return [result, *(each.grad for each in model.parameters())]


def nested(values: dict[str, Any]) -> list[Any]:
    first, (second, third) = values["first"], values["others"]
    return [torch.nn.functional.gelu(first @ second), {"scaled": first.t() * third, "sum": second.sum(0)}]


def by_aot_function(use: Doors, partition: Any) -> list[torch.Tensor]:
    """Nested inputs and outputs; the second output has the strides of a transposed tensor, also when it is compiled."""
    compiled = aot_function(nested, **use.both, partition_fn=partition)
    first, second, third = random(4, 9), random(9, 3), random(1)
    given = {"first": first, "others": (second, third)}
    out, more = compiled(given)
    eager, eager_more = nested(given)
    assert torch.allclose(out, eager, atol=1e-5)
    assert more["scaled"].stride() == eager_more["scaled"].stride() == (1, 9)
    (out.square().sum() + more["scaled"].sum() + (more["sum"] ** 2).sum()).backward()
    return [out, more["scaled"], more["sum"], *(each.grad for each in (first, second, third))]


def by_aot_module(use: Doors) -> list[torch.Tensor]:
    model = Net(6)
    return trained(model, aot_module(model, **use.both), random(3, 6, grad=False))


def by_aot_module_simplified(use: Doors) -> list[torch.Tensor]:
    model = Net(7)
    value = random(3, 7, grad=False)
    return trained(model, aot_module_simplified(model, (value,), **use.both), value)


def by_aot_export_module(use: Doors) -> list[torch.Tensor]:
    model, value = Net(5), random(4, 5, grad=False)
    gm, _ = aot_export_module(model, (value,), trace_joint=False, decompositions=inductord.decompositions())
    parameters = [each.detach() for each in model.parameters()]
    compiled = use.inference(gm, [*parameters, value])
    return list(compiled([*parameters, value]))


def by_aot_export_joint_simple(use: Doors) -> list[torch.Tensor]:
    def function(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor]:
        return (left.sin() @ right,)

    left, right = random(3, 8), random(8, 2)
    graph = aot_export_joint_simple(
        function, (left, right), trace_joint=True, decompositions=inductord.decompositions()
    )
    before = graph.code
    inputs = [left.detach(), right.detach(), torch.ones(3, 2)]
    results = [list(use.inference(graph, inputs)(list(inputs))) for _ in range(2)]
    assert graph.code == before, "the caller's graph is the caller's"
    assert digest(results[0]) == digest(results[1])
    return results[0]


def by_backend(use: Doors, wrap: Callable[[Any], Any] = lambda backend: backend, **more: Any) -> list[torch.Tensor]:
    torch.compiler.reset()
    model = Net(8 + len(more))
    compiled = torch.compile(model, backend=wrap(use.backend(**more)), fullgraph=True)
    value = random(5, 8 + len(more), grad=False)
    results = trained(model, compiled, value)
    with torch.no_grad():
        return [*results, compiled(value)[0]]


def by_dynamic_backend(use: Doors) -> list[torch.Tensor]:
    torch.compiler.reset()
    model = Net(11)
    compiled = torch.compile(model, backend=use.backend(), fullgraph=True, dynamic=True)
    return [*trained(model, compiled, random(5, 11, grad=False)), *trained(model, compiled, random(9, 11, grad=False))]


def by_backend_with_nested_inputs(use: Doors) -> list[torch.Tensor]:
    """A graph that is called with a list of tensors, as compiled autograd does."""

    def function(values: list[torch.Tensor]) -> tuple[torch.Tensor]:
        return (values[0] * 3 + values[1].sin(),)

    values = [random(4, 12), random(4, 12)]
    (result,) = use.backend()(torch.fx.symbolic_trace(function), [values])(values)
    result.sum().backward()
    return [result, *(each.grad for each in values)]


CASES: dict[str, Callable[[Doors], list[torch.Tensor]]] = {
    "aot_function": lambda use: by_aot_function(use, default_partition),
    "aot_function, min-cut": lambda use: by_aot_function(use, min_cut_rematerialization_partition),
    "aot_module": by_aot_module,
    "aot_module_simplified": by_aot_module_simplified,
    "aot_export_module": by_aot_export_module,
    "aot_export_joint_simple": by_aot_export_joint_simple,
    "backend": by_backend,
    "backend, min-cut": lambda use: by_backend(use, partition_fn=min_cut_rematerialization_partition),
    "backend without fake tensors": lambda use: by_backend(
        use, fake_tensor_unsupported, keep_inference_input_mutations=True, partition_fn=default_partition
    ),
    "backend, dynamic": by_dynamic_backend,
    "backend, nested inputs": by_backend_with_nested_inputs,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inductord", action="store_true")
    args = parser.parse_args()
    found = {}
    for name, case in CASES.items():
        torch.manual_seed(0)
        use = Doors(args.inductord)
        found[name] = {"digest": digest(case(use)), "calls": dict(use.calls)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
