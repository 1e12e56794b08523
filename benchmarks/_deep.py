"""One run of ``regions.py``: a decoder of the Llama shape is compiled, its first step is timed, then many more.

    python benchmarks/_deep.py --device cpu --layers 12

Prints one JSON object: seconds from the first call to the end of the first backward, and CPU seconds of this process and its
children in that time; milliseconds of a step, peak memory of steps, and how far the gradients are from those of float64 in
eager mode.
"""

import argparse
import contextlib
import copy
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import calculate_time_spent
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


class Norm(nn.Module):
    """Root mean square norm, in float32 or better."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return wide.to(x.dtype) * self.weight


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions. ``x``: [batch, heads, length, head width]."""
    left, right = x.to(torch.promote_types(x.dtype, torch.float32)).chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1).to(x.dtype)


class Layer(nn.Module):
    """Attention, then a gated feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(Norm(width) for _ in range(2))
        inner = int(width * 8 / 3) // 64 * 64
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norms[0](x)
        q, k, v = (each(y).view(batch, length, self.heads, -1).transpose(1, 2) for each in (self.q, self.k, self.v))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Next-token loss."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, vocabulary: int, layers: int, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        half = width // heads // 2
        angles = torch.outer(torch.arange(length).double(), 10_000.0 ** -(torch.arange(half).double() / half)).float()
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        guesses = self.head(self.norm(x))
        guesses = guesses.to(torch.promote_types(guesses.dtype, torch.float32))
        return functional.cross_entropy(guesses.flatten(0, 1), targets.flatten())


class PeakMemory:
    """Most memory that was in use since it was made: of the GPU, or resident memory of this process."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        else:
            Path("/proc/self/clear_refs").write_text("5")  # the kernel starts its high-water mark anew

    def bytes(self) -> int:
        """Until now."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated()
        return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """By parameter."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def distance(found: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> float:
    """Relative, over all parameters."""
    assert found.keys() == exact.keys()
    apart = sum((found[name].double() - exact[name]).square().sum() for name in exact)
    return float((apart / sum(each.square().sum() for each in exact.values())) ** 0.5)


def cpu_seconds() -> float:
    """Of this process, and of those children of it that ended, such as C++ compilers."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextlib.contextmanager
def one_rank(device: torch.device) -> Iterator[None]:
    """A process group of this process alone."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    yield
    gc.collect()  # a DDP model that outlives its process group can deadlock (pytorch/pytorch#56297)
    dist.destroy_process_group()


def run(args: argparse.Namespace) -> tuple[dict[str, Any], Callable[[int], float | None]]:
    """Compile and measure. Also gives what measures so many further steps: the median, in milliseconds."""
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    synchronize: Callable[[], None] = torch.cuda.synchronize if on_gpu else _nothing
    torch.manual_seed(0)
    model = Decoder(args.vocabulary, args.layers, args.width, args.heads or args.width // 64, args.length)
    model = model.to(device, torch.bfloat16 if on_gpu else torch.float32)
    tokens = torch.randint(0, args.vocabulary, (args.batch, args.length + 1), device=device)
    pair = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    result: dict[str, Any] = {}
    if args.gradients:
        model(*pair).backward()
        eager = gradients(model)
        model.zero_grad()
        exact_model = copy.deepcopy(model).double()
        for tokens_, targets in zip(*(each.split(1) for each in pair), strict=True):
            (exact_model(tokens_, targets) / args.batch).backward()  # one by one: float64 needs much memory
        exact = gradients(exact_model)
        del exact_model
        result["gradient_error_eager"] = distance(eager, exact)
    called = DistributedDataParallel(model, bucket_cap_mb=args.ddp) if args.ddp else model
    compiled = torch.compile(called)
    synchronize()
    began, cpu_before = time.perf_counter(), cpu_seconds()
    loss = compiled(*pair)
    forward_s = time.perf_counter() - began
    loss.backward()
    synchronize()
    result["cold_s"] = round(time.perf_counter() - began, 3)
    result["cpu_s"] = round(cpu_seconds() - cpu_before, 1)
    result["forward_s"] = round(forward_s, 3)
    result["loss"] = loss.item().hex()
    result["spent_s"] = {name: round(seconds, 2) for name, seconds in calculate_time_spent().items()}
    if args.gradients:
        result["gradient_error"] = distance(gradients(model), exact)
        del exact, eager
    model.zero_grad()
    for _ in range(args.warmup):
        compiled(*pair).backward()
    synchronize()
    peak = PeakMemory(device)

    def steps(count: int) -> float | None:
        times = []
        for _ in range(count):
            start = time.perf_counter()
            compiled(*pair).backward()
            synchronize()
            times.append(time.perf_counter() - start)
        return round(1000 * statistics.median(times), 3) if times else None

    result["step_ms"] = steps(args.steps)
    result["peak_mb"] = round(peak.bytes() / 2**20, 1)
    return result, steps


def _nothing() -> None:
    """The CPU has nothing to wait for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=0, help="one for each 64 of the width when 0")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--ddp", type=float, default=0, help="size of DistributedDataParallel's buckets in MB; 0: without it"
    )
    parser.add_argument("--gradients", action="store_true", help="compare with float64")
    parser.add_argument("--stay", action="store_true", help="then measure as many steps as each line on stdin says")
    args = parser.parse_args()
    with one_rank(torch.device(args.device)) if args.ddp else contextlib.nullcontext():
        result, steps = run(args)
        print(json.dumps(result), flush=True)
        if args.stay:
            for line in sys.stdin:
                print(steps(int(line)), flush=True)


if __name__ == "__main__":
    main()
