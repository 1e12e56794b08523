"""Process settings as a rank would have changed them, applied in a process that has the defaults, as a worker has.

Prints, by change: what the rank describes, what the worker describes with that applied, and whether all is back afterwards.
"""

import json
import os
from collections.abc import Callable

import torch

from inductord.compiler.adapter import ambient

CHANGES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "default dtype": lambda: torch.set_default_dtype(torch.bfloat16),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "deterministic, warn": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "uninitialised memory": lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "matmul high": lambda: torch.set_float32_matmul_precision("high"),
    "matmul medium": lambda: torch.set_float32_matmul_precision("medium"),
    "tf32": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "CUDA matmul": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "oneDNN matmul": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "fp16 reduction": lambda: setattr(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
    "bf16 reduction": lambda: setattr(torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
    "no oneDNN": lambda: setattr(torch.backends.mkldnn, "enabled", False),
    "oneDNN deterministic": lambda: setattr(torch.backends.mkldnn, "deterministic", True),
    "no cuDNN": lambda: setattr(torch.backends.cudnn, "enabled", False),
    "cuDNN benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "cuDNN deterministic": lambda: setattr(torch.backends.cudnn, "deterministic", True),
    "precision in Triton": lambda: os.environ.update(TRITON_F32_DEFAULT="ieee"),
    "functional RNG": lambda: setattr(torch._functorch.config, "functionalize_rng_ops", True),
}


def main() -> None:
    defaults = ambient.describe()
    seen = {}
    for name, change in CHANGES.items():
        with ambient.applied(defaults):  # whatever the change does is undone at the end of this block
            change()
            described = ambient.describe()
        assert ambient.describe() == defaults, name
        # As it travels: JSON, in the order of the alphabet.
        travelled = json.loads(json.dumps(described, sort_keys=True))
        with ambient.applied(travelled):
            applied = ambient.describe()
        seen[name] = {"rank": described, "worker": applied, "restored": ambient.describe() == defaults}
    print(json.dumps(seen))


main()
