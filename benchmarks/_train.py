"""One rank of ``cold.py``: a few training steps of a decoder of the Llama shape, in plain PyTorch.

    torchrun --nproc-per-node 2 benchmarks/_train.py --out FOLDER

Leaves losses, seconds and the number of graphs that were compiled or loaded in ``--out``.
"""

import argparse
import gc
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

_VOCABULARY = 512
_HEAD_WIDTH = 32


class Layer(nn.Module):
    """Attention with rotary positions, then a gated feed-forward."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // _HEAD_WIDTH
        self.attention_norm = nn.RMSNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width, bias=False)
        self.feed_norm = nn.RMSNorm(width)
        self.gate_and_up = nn.Linear(width, 2 * 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        """``x``: [batch, length, width]; ``turn``: [2, length, head width], cosines and sines."""
        batch, length, width = x.shape
        parts = self.queries_keys_values(self.attention_norm(x)).view(batch, length, 3, self.heads, -1)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            _turned(queries, turn), _turned(keys, turn), values, is_causal=True
        )
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_and_up(self.feed_norm(x)).chunk(2, -1)
        out: torch.Tensor = x + self.down(functional.silu(gate) * up)
        return out


def _turned(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    turned: torch.Tensor = x * turn[0] + torch.cat((-right, left), -1) * turn[1]
    return turned.to(x.dtype)


class Decoder(nn.Module):
    """Next-token loss of a decoder. Each layer has its own weights and the same code."""

    turn: torch.Tensor

    def __init__(self, layers: int, width: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, _VOCABULARY, bias=False)
        frequencies = 10_000.0 ** -(torch.arange(0, _HEAD_WIDTH, 2) / _HEAD_WIDTH)
        angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
        self.register_buffer("turn", torch.stack((angles.cos(), angles.sin())))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``tokens``: [batch, length + 1]. Returns the mean loss."""
        x = self.embedding(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x, self.turn)
        guesses: torch.Tensor = self.head(self.norm(x))
        return functional.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())


def train(args: argparse.Namespace, rank: int) -> dict[str, Any]:
    """Train and return what is reported."""
    on_gpu = args.device == "cuda"
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    torch.manual_seed(0)
    decoder = Decoder(args.layers, args.width, args.length).to(device)
    model = torch.compile(DistributedDataParallel(decoder, device_ids=[local_rank] if on_gpu else None))
    optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
    draw = torch.Generator().manual_seed(rank)
    losses = []
    first_backward = 0.0
    for step in range(args.steps):
        tokens = torch.randint(_VOCABULARY, (args.batch, args.length + 1), generator=draw).to(device)
        began = time.perf_counter()
        loss = model(tokens)
        loss.backward()
        if step == 0:
            if on_gpu:
                torch.cuda.synchronize()
            first_backward = time.perf_counter() - began
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    seen = counters["inductor"]
    return {
        "losses": [loss.hex() for loss in losses],
        "first_backward_s": first_backward,
        "not_in_inductors_cache": seen["fxgraph_cache_miss"] + seen["fxgraph_cache_bypass"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    rank = dist.get_rank()
    result = train(args, rank)
    # A DDP model that outlives the process group ends it while it holds the interpreter lock, for which Gloo's threads may
    # wait at that moment: a deadlock of PyTorch's (pytorch/pytorch#56297). So the model goes first.
    gc.collect()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"rank-{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
