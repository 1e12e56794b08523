"""Two ranks that train small models in parallel, in one way after the other, as users would. It knows nothing of inductord.

torchrun --nproc-per-node 2 parallel.py [NAME ...]

Rank 0 prints, by name, for each rank a digest of the exact bits of outputs and gradients, or the error.
"""

import gc
import json
import sys
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from cases import CASES, case, run
from torch import Tensor, nn
from torch._inductor import config
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Module):
    """A frame of its own, which Dynamo sees whoever calls it; it skips that of ``nn.Sequential``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into = nn.Linear(width, 2 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.back(nn.functional.gelu(self.into(x)))
        return out


class Model(nn.Module):
    """Blocks one after the other."""

    def __init__(self, width: int, blocks: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def mesh(*sizes: int, names: tuple[str, ...] = ("ranks",)) -> DeviceMesh:
    return init_device_mesh("cpu", sizes or (2,), mesh_dim_names=names)


def backward(output: Tensor, *of: nn.Module) -> list[Tensor]:
    """Go backward; the output and the gradients of parameters, whole where they are spread."""
    output.square().mean().backward()
    values = [output, *(parameter.grad for module in of for parameter in module.parameters())]
    return [value.to_local() if hasattr(value, "to_local") else value for value in values if value is not None]


@case("DDP with its splitting of graphs")
def ddp() -> Iterable[Any]:
    model = Model(384, 2)
    wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
    return backward(torch.compile(wrapped)(torch.randn(4, 384)), model)


@case("DDP that reduces in the graph")
def ddp_in_the_graph() -> Iterable[Any]:
    """DDP sets Inductor to join its reductions, for the whole process; compiled autograd has them in a graph."""
    in_python = torch._dynamo.config.patch(optimize_ddp="python_reducer", compiled_autograd=True)
    with in_python, config.patch(_fuse_ddp_communication=False, _fuse_ddp_bucket_size=25):
        model = Model(384, 2)
        wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
        output = torch.compile(wrapped)(torch.randn(4, 384))
        torch.compile(lambda: output.square().mean().backward())()
    return [output, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


@case("FSDP2")
def fsdp2() -> Iterable[Any]:
    model = Model(16, 2)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return backward(torch.compile(model)(torch.randn(4, 16)), model)


def tensor_parallel(model: Model, over: DeviceMesh) -> Model:
    for block in model.blocks:
        parallelize_module(block, over, {"into": ColwiseParallel(), "back": RowwiseParallel()})
    return model


@case("tensor parallel")
def tp() -> Iterable[Any]:
    model = tensor_parallel(Model(12), mesh())
    return backward(torch.compile(model)(torch.ones(4, 12)), model)


@case("tensor parallel with FSDP2")
def tp_fsdp() -> Iterable[Any]:
    both = mesh(1, 2, names=("shards", "ranks"))
    model = tensor_parallel(Model(20), both["ranks"])
    fully_shard(model, mesh=both["shards"])
    return backward(torch.compile(model)(torch.ones(4, 20)), model)


@case("row-wise embedding")
def embedding() -> Iterable[Any]:
    model = parallelize_module(nn.Embedding(128, 8), mesh(), RowwiseParallel(input_layouts=Replicate()))
    return backward(torch.compile(model)(torch.arange(0, 128, 8).view(2, 8)), model)


@case("DTensor in the graph")
def dtensor() -> Iterable[Any]:
    over = mesh()
    x, w = (
        distribute_tensor(torch.ones(6, 10), over, [Shard(0)]),
        distribute_tensor(torch.ones(10, 5), over, [Replicate()]),
    )
    w.requires_grad_()
    out = torch.compile(lambda x, w: (x @ w).sin().redistribute(placements=[Replicate()]).to_local())(x, w)
    out.sum().backward()
    return [out, w.grad.to_local()]


@case("pipeline stages")
def pipeline() -> Iterable[Any]:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank = dist.get_rank()
    stage_model = Model(24)
    stage = PipelineStage(torch.compile(stage_model), rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=2, loss_fn=lambda out, target: (out - target).square().mean())
    x = torch.randn(4, 24)
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=torch.zeros(4, 24))
    return [parameter.grad for parameter in stage_model.parameters()]


@case("context parallel")
def context_parallel() -> Iterable[Any]:
    """Attention over a split sequence, by hand: each rank has half of the sequence and gathers keys and values."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (collectives.all_gather_tensor_autograd(each, 2, dist.group.WORLD) for each in (k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v)

    q, k, v = (torch.randn(1, 2, 6, 8, requires_grad=True) for _ in range(3))
    out = torch.compile(attend)(q, k, v)
    out.sum().backward()
    return [out, *(each.grad for each in (q, k, v))]


@case("expert all-to-all")
def experts() -> Iterable[Any]:
    expert = nn.Linear(14, 14)

    def route(x: Tensor) -> Tensor:
        there = collectives.all_to_all_single_autograd(x, [2, 2], [2, 2], dist.group.WORLD)
        return collectives.all_to_all_single_autograd(expert(there).relu(), [2, 2], [2, 2], dist.group.WORLD)

    return backward(torch.compile(route)(torch.randn(4, 14)), expert)


@case("expert all-to-all of unequal parts")
def unequal_experts() -> Iterable[Any]:
    """Ranks whose graphs truly differ."""
    sizes = [[1, 3], [2, 2]]
    rank = dist.get_rank()
    into, out = [sizes[to][rank] for to in range(2)], sizes[rank]
    expert = nn.Linear(26, 26)

    def route(x: Tensor) -> Tensor:
        there = collectives.all_to_all_single_autograd(x, into, out, dist.group.WORLD)
        return expert(there).relu()

    return backward(torch.compile(route)(torch.randn(4, 26)), expert)


@case("functional collectives")
def functional() -> Iterable[Any]:
    def f(x: Tensor) -> Tensor:
        return collectives.all_reduce(x.sin(), "sum", dist.group.WORLD) + collectives.reduce_scatter_tensor(
            x.cos(), "sum", 0, dist.group.WORLD
        ).repeat(2, 1)

    return [torch.compile(f)(torch.randn(4, 3))]


@case("collectives of a smaller group")
def smaller_group() -> Iterable[Any]:
    """Each rank's group is itself: the same graph but for the name of the group."""
    group = next(made for ranks in range(2) if (made := dist.new_group([ranks])) and ranks == dist.get_rank())
    return [torch.compile(lambda x: collectives.all_reduce(x.sin() * 5, "sum", group))(torch.randn(28))]


@case("collectives in buckets")
def buckets() -> Iterable[Any]:
    """Inductor joins the gathers and writes the rank's number into the code, after any key was made of the graph."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        gathered = [collectives.all_gather_tensor(each, 0, dist.group.WORLD) for each in (x * 7, y * 7)]
        return gathered[0] + gathered[1]

    with config.patch(bucket_all_gathers_fx="all"):
        return [torch.compile(f)(torch.randn(4, 3) + dist.get_rank(), torch.randn(4, 3))]


def main() -> None:
    dist.init_process_group("gloo")
    results: dict[str, Any] = {}
    for name in sys.argv[1:] or CASES:
        if dist.get_rank() == 0:
            print(f"--- {name}", file=sys.stderr, flush=True)
        gathered: list[Any] = [None, None]
        dist.all_gather_object(gathered, run(CASES[name]))
        results[name] = gathered
        gc.collect()  # a DDP model that outlives its process group can deadlock (pytorch/pytorch#56297)
    if dist.get_rank() == 0:
        print(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
