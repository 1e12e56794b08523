"""One rank under DistributedDataParallel whose buckets are smaller than its layers are together, so that Dynamo's graph is
cut at them. Prints its losses, exact."""

import gc
import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 384


class Tower(nn.Module):
    """Equal layers, one after the other."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + nn.functional.gelu(layer(nn.functional.layer_norm(x, (WIDTH,))))
        return x


def main() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    model = torch.compile(DistributedDataParallel(Tower(5), bucket_cap_mb=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = model(torch.ones(4, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    del model
    # A DDP model that outlives its process group can deadlock (pytorch/pytorch#56297).
    gc.collect()
    dist.destroy_process_group()
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
