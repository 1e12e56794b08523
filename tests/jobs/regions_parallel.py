"""Two ranks that train stacks of equal layers: with FSDP2, as two stages of a pipeline, and tensor parallel. As a user would
write it; it knows nothing of inductord.

torchrun --nproc-per-node 2 regions_parallel.py

Rank 0 prints, by way, for each rank the losses that it saw and a digest of its gradients, exact.
"""

import gc
import json
from collections.abc import Callable

import torch
import torch.distributed as dist
from cases import digest
from parallel import mesh, tensor_parallel
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

torch.set_num_threads(1)
STEPS = 2


class Layer(nn.Module):
    """Residual feed-forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.into, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.back(nn.functional.gelu(self.into(self.norm(x))))
        return out


class Stack(nn.Module):
    """Equal layers; ``first`` before them and ``last`` after them."""

    def __init__(
        self, width: int, depth: int = 4, *, first: nn.Module | None = None, last: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.first, self.last = first, last
        self.blocks = nn.ModuleList(Layer(width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        if self.first is not None:
            x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x if self.last is None else self.last(x)


def steps(model: nn.Module, step: Callable[[], list[Tensor]]) -> list[str]:
    """Train; the losses, then the digest."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses += [loss.item().hex() for loss in step()]
        optimizer.step()
    gradients = [parameter.grad for parameter in model.parameters()]
    return [*losses, digest(each.to_local() if hasattr(each, "to_local") else each for each in gradients)]


def mean_square(out: Tensor, target: Tensor) -> Tensor:
    return (out - target).square().mean()


def alike(model: nn.Module) -> list[str]:
    """Each rank has a batch of its own and the whole graph."""
    compiled = torch.compile(model)
    x = torch.randn(4, 16) + dist.get_rank()

    def step() -> list[Tensor]:
        loss = mean_square(compiled(x), x)
        loss.backward()
        return [loss]

    return steps(model, step)


def fsdp2() -> list[str]:
    """One unit for all layers: FSDP's hooks break the graph at each unit."""
    model = Stack(16)
    return alike(fully_shard(model))


def pipeline() -> list[str]:
    """The ranks have different graphs, with the same layers in them."""
    rank = dist.get_rank()
    model = Stack(24, first=nn.Embedding(8, 24)) if rank == 0 else Stack(24, last=nn.Linear(24, 8))
    stage = PipelineStage(torch.compile(model), rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=2, loss_fn=mean_square)
    tokens, targets = torch.arange(8).view(4, 2), torch.zeros(4, 2, 8)

    def step() -> list[Tensor]:
        losses: list[Tensor] = []
        if rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=targets, losses=losses)
        return losses

    return steps(model, step)


def tp() -> list[str]:
    """The parameters are of a subclass of tensors, in the graph too."""
    return alike(tensor_parallel(Stack(16, 1), mesh()))


def main() -> None:
    dist.init_process_group("gloo")
    results = {}
    for way in (fsdp2, pipeline, tp):
        torch.compiler.reset()
        torch.manual_seed(0)
        gathered: list[list[str] | None] = [None, None]
        dist.all_gather_object(gathered, way())
        results[way.__name__] = gathered
        gc.collect()
    if dist.get_rank() == 0:
        print(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
