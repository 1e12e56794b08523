"""Prints what PyTorch's own account says after each step of a process that compiles, compiles again and starts over."""

import dataclasses
import json
from collections.abc import Callable

import torch

from inductord.compiler.adapter.accounting import Accounting, time_first_launch


def layer(value: torch.Tensor, scale: float) -> torch.Tensor:
    return (value * scale).relu().sum()


class Compiled:
    """What Inductor's compiled graphs are to the timer."""

    def __init__(self) -> None:
        self.calls = 0
        self.current_callable: Callable[[list[int]], list[int]] = self.run

    def run(self, inputs: list[int]) -> list[int]:
        self.calls += 1
        return inputs


def main() -> None:
    accounting = Accounting()
    steps = {"start": accounting.read()}
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    weights = torch.randn(4, 4, requires_grad=True)
    compiled(weights, 1.0).backward()
    steps["compiled"] = accounting.read()
    compiled(weights, 1.0).backward()
    steps["ran"] = accounting.read()
    compiled(weights.double(), 1.0)
    steps["another type"] = accounting.read()
    compiled(weights[0], 1.0)
    steps["another rank"] = accounting.read()
    torch.compiler.reset()
    steps["reset"] = accounting.read()
    compiled(weights, 1.0)
    compiled(weights.double(), 1.0)
    steps["again"] = accounting.read()

    graph, launches = Compiled(), list[float]()
    time_first_launch(graph, launches.append)
    results = [graph.current_callable([number]) for number in range(3)]
    time_first_launch("no graph", launches.append)
    print(
        json.dumps(
            {
                "steps": {name: dataclasses.asdict(account) for name, account in steps.items()},
                "launches": len(launches),
                "calls": graph.calls,
                "results": results,
            }
        )
    )


if __name__ == "__main__":
    main()
