"""A worker that really compiles, with less to warm up than the product's, and with a fault before (``faults.py``).

Environment:
    WARM_CACHE: an Inductor cache folder; a copy of it spares the C++ compiler most of its work.
    WORKER_TORCH: when set, this worker believes that it has that release of torch.
"""

import os
import shutil

from faults import faulty

from inductord.v1.compiler_pb2 import Toolchain
from inductord.worker.compile_task import compile_graph
from inductord.worker.process import main


def warm() -> Toolchain:
    """Import, and say what this worker compiles with."""
    shutil.copytree(os.environ["WARM_CACHE"], os.environ["TORCHINDUCTOR_CACHE_DIR"], dirs_exist_ok=True)
    import torch

    if version := os.environ.get("WORKER_TORCH"):
        torch.__version__ = torch.torch_version.TorchVersion(version)
    from inductord.compiler.adapter import toolchain

    return toolchain.describe("")


if __name__ == "__main__":
    main(warm, faulty(compile_graph))
