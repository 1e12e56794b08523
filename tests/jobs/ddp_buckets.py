"""One rank under DistributedDataParallel whose buckets are smaller than its layers are together, so that Dynamo's graph is
cut at them: two of them hold many layers, the first only a few. Prints its losses and, beside them, those of eager mode."""

import gc
import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
WIDTH, DEPTH = 96, 62


class Tower(nn.Module):
    """Equal layers, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + nn.functional.gelu(layer(nn.functional.layer_norm(x, (WIDTH,))))
        return x


def train(*, compiled: bool) -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)
    model: nn.Module = DistributedDataParallel(Tower(), bucket_cap_mb=1)
    called = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = called(torch.ones(4, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    losses = {"compiled": train(compiled=True), "eager": train(compiled=False)}
    # A DDP model that outlives its process group can deadlock (pytorch/pytorch#56297).
    gc.collect()
    dist.destroy_process_group()
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
