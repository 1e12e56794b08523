"""Trains a small network for one step, and prints what PyTorch accounts for it: names of counters, of timed functions, and of
the fields that its compilation metrics have for forward and for backward; and Inductor's own metrics, of a graph whose loops it
fuses, too. Then it has something recompiled, for the logs."""

import dataclasses
import json

import torch
from torch import nn
from torch._dynamo.utils import compile_times, counters, get_compilation_metrics
from torch._inductor import metrics as inductor_metrics


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(33, 34), nn.GELU(), nn.Linear(34, 1))
    torch.compile(model, fullgraph=True)(torch.randn(4, 33)).square().mean().backward()
    torch.compile(lambda value: value - value.softmax(-1))(torch.ones(4, 12, 1023, 30))
    metrics = {}
    for each in get_compilation_metrics():
        fields = dataclasses.asdict(each)
        metrics[f"forward {each.is_forward}"] = sorted(name for name, value in fields.items() if value is not None)
    names, _ = compile_times(repr="csv", aggregate=True)
    account = {
        "counters": {group: dict(counts) for group, counts in counters.items() if counts},
        "times": sorted(names),
        "metrics": metrics,
        "inductor": {
            name: repr(value) for name, value in vars(inductor_metrics).items() if isinstance(value, int | list)
        },
    }
    scaled = torch.compile(lambda value, scale: value * scale, backend="eager")
    for scale in (1.0, 2.0):
        scaled(torch.ones(2), scale)
    print(json.dumps(account))


if __name__ == "__main__":
    main()
