"""Several ranks train one small network under DistributedDataParallel. As a user would; it knows nothing of inductord.

Each rank writes its losses, exact, to ``--out``.
"""

import argparse
import gc
import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """A residual step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.into = nn.Linear(width, 4 * width)
        self.back = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.back(nn.functional.gelu(self.into(self.norm(x))))
        return out


def train(args: argparse.Namespace, rank: int) -> list[str]:
    """Train, and return the losses."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(32, args.width), Block(args.width), nn.Linear(args.width, 32))
    compiled = torch.compile(DistributedDataParallel(model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.Generator().manual_seed(100 + rank)
    losses = []
    for _ in range(args.steps):
        tokens = torch.randint(0, 32, (4, 17), generator=data)
        logits = compiled(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    losses = train(args, rank)
    # A DDP model that outlives its process group can deadlock (pytorch/pytorch#56297).
    gc.collect()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{rank}.json").write_text(json.dumps(losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
