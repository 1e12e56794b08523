"""A plain PyTorch training script, as anybody would write it. It knows nothing of inductord.

    torchrun --nproc-per-node 4 demo/train.py --out losses/

A byte-level language model (Llama architecture, random start) learns the text of Python's own standard library. Each rank
writes its losses and the time of its first step to ``--out``.
"""

import argparse
import gc
import json
import sysconfig
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM


def text(limit: int = 4_000_000) -> torch.Tensor:
    """The first bytes of the standard library's sources, as a tensor of shape [bytes], dtype uint8."""
    content = bytearray()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        content += path.read_bytes()
        if len(content) >= limit:
            break
    return torch.frombuffer(content[:limit], dtype=torch.uint8)


def train(args: argparse.Namespace, rank: int) -> dict[str, object]:
    """Train and return the losses, exact, and the seconds to the end of the first backward."""
    torch.manual_seed(args.seed)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=args.width,
        intermediate_size=args.width * 8 // 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 32,
        num_key_value_heads=args.width // 32,
        use_cache=False,
    )
    model = torch.compile(DistributedDataParallel(LlamaForCausalLM(config)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    data = text()
    order = torch.Generator().manual_seed(args.seed * 1000 + rank)

    losses = []
    first_step = 0.0
    for step in range(args.steps):
        starts = torch.randint(0, len(data) - args.length, (args.batch,), generator=order)
        tokens = torch.stack([data[start : start + args.length] for start in starts]).long()
        began = time.perf_counter()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        if step == 0:
            first_step = time.perf_counter() - began
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if rank == 0:
            print(f"step {step:3d}  loss {losses[-1]:.4f}", flush=True)
    return {"losses": [loss.hex() for loss in losses], "first_step_s": first_step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    dist.init_process_group("gloo")
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
