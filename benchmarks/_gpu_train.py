"""One rank of ``gpu.py``: twenty training steps of a small decoder on a GPU, with what its process compiled and chose.

    torchrun --nproc-per-node 2 benchmarks/_gpu_train.py --mode default --out FOLDER

It knows nothing of inductord: kernels are counted with PyTorch's and Triton's own counters.
"""

import argparse
import gc
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _train import Decoder
from torch._dynamo.utils import counters
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._inductor.select_algorithm import AlgorithmSelectorCache
from torch.nn.parallel import DistributedDataParallel

_NUMBERED = re.compile(r"_\d+$")


class KernelWatch:
    """Counts Triton compiles, and kernels and products of matrices that were tuned, in this process."""

    def __init__(self) -> None:
        import triton

        self.compiled = 0
        self.tuned: list[str] = []
        triton.knobs.compilation.listener = self._compiled
        tune = CachingAutotuner.benchmark_all_configs

        def benchmark_all_configs(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            self.tuned.append(kernel.fn.__name__)
            return tune(kernel, *args, **kwargs)

        CachingAutotuner.benchmark_all_configs = benchmark_all_configs
        self.products = 0
        select = AlgorithmSelectorCache.do_autotuning

        def do_autotuning(*args: Any, **kwargs: Any) -> Any:
            self.products += 1
            return select(*args, **kwargs)

        AlgorithmSelectorCache.do_autotuning = do_autotuning

    def _compiled(self, *_: Any, cache_hit: bool = False, **__: Any) -> None:
        self.compiled += not cache_hit

    def as_json(self) -> dict[str, Any]:
        inductor = counters["inductor"]
        # Of graphs: their kernels are numbered. Of what a rank compiled in order to measure it, others have nothing.
        chosen = {
            f"{kernel.fn.__name__} {hashlib.sha256(kernel.fn.src.encode()).hexdigest()[:8]}": str(
                kernel.launchers[0].config
            )
            for kernel in gc.get_objects()
            if type(kernel) is CachingAutotuner and len(kernel.launchers) == 1 and _NUMBERED.search(kernel.fn.__name__)
        }
        return {
            "triton_compiles": self.compiled,
            # Kernels that a compile or a load asked for, less those that came with an artifact.
            "kernels_not_delivered": inductor["async_compile_cache_miss"] - inductor["async_compile_cache_hit"],
            "kernels_delivered": inductor["triton_bundler_load_static_autotuner"],
            "tuned": sorted(self.tuned),
            "chosen": dict(sorted(chosen.items())),
            # Not PyTorch's own counter, which comes with an artifact.
            "gemm_tunings": self.products,
            "cudagraph_skips": inductor["cudagraph_skips"],
        }


def train(args: argparse.Namespace, rank: int, device: torch.device) -> dict[str, Any]:
    """Losses, exact, and seconds."""
    torch.manual_seed(0)
    model = Decoder(args.layers, args.width, args.length).to(device, torch.bfloat16)
    compiled = torch.compile(DistributedDataParallel(model, device_ids=[device.index]), mode=args.mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(100 + rank)
    losses, first = [], 0.0
    for _ in range(args.steps):
        tokens = torch.randint(0, 512, (args.batch, args.length + 1), generator=data).to(device)
        dist.barrier()
        start = time.perf_counter()
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(tokens)
        loss.backward()
        torch.cuda.synchronize()
        first = first or time.perf_counter() - start
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    gradient = model.head.weight.detach().float().sum().item().hex()
    return {"losses": losses, "weights": gradient, "first_backward_s": round(first, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="default")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rank, ranks, cards = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    device = torch.device("cuda", rank % cards)
    torch.cuda.set_device(device)
    if ranks <= cards:
        dist.init_process_group("nccl", device_id=device)
    else:  # NCCL does not have two ranks on one device
        dist.init_process_group("gloo")
    watch = KernelWatch()
    card = f"{torch.cuda.get_device_name(device)}, {min(ranks, cards)} for {ranks} ranks over {dist.get_backend()}"
    row = train(args, rank, device) | watch.as_json() | {"card": card}
    gc.collect()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"rank-{rank}.json").write_text(json.dumps(row))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
