"""The environment of a worker process. Pure: from the daemon's environment and a scratch folder to the worker's.

A worker must compile what the graph says, whoever started the daemon. So what one user's shell set for PyTorch's
compiler does not reach it; the settings that matter travel with each graph.
"""

from collections.abc import Mapping
from pathlib import Path

from inductord.compiler import triton_variables

# What torchrun and schedulers give to a rank. A worker is none.
_RANK_VARIABLES = frozenset(
    {
        "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME",
        "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE",
        "MASTER_ADDR", "MASTER_PORT",
    }
)  # fmt: skip
_COMPILER_PREFIXES = ("INDUCTORD", "TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCHELASTIC_", "TORCH_COMPILE_")
_COMPILER_VARIABLES = (
    frozenset({"TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_TRACE"}) | triton_variables.DECIDING | triton_variables.LOCAL
)
_NAMES_OF_THE_USER = ("LOGNAME", "USER", "LNAME", "USERNAME")


def worker_environment(base: Mapping[str, str], scratch: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """``base`` without what concerns ranks, with caches under ``scratch``; ``overrides`` has the last word."""
    environment = {name: value for name, value in base.items() if not _is_foreign(name)}
    if not any(environment.get(name) for name in _NAMES_OF_THE_USER):
        # Without one of these getpass asks the password database, and a container's UID may not be in it.
        environment["LOGNAME"] = "inductord"
    environment.update(
        # Nobody else's compile, and not through the daemon.
        INDUCTORD="0",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
        # Compiles touch no GPU memory: eight ranks need it.
        CUDA_VISIBLE_DEVICES="",
        # Whether there are GPUs is asked of the management library: CUDA would start threads, and then nothing may be forked.
        PYTORCH_NVML_BASED_CUDA_CHECK="1",
        OMP_NUM_THREADS="1",
        TORCHINDUCTOR_COMPILE_THREADS="1",
        PYTHONUNBUFFERED="1",
        TORCHINDUCTOR_CACHE_DIR=str(scratch / "inductor"),
        TRITON_CACHE_DIR=str(scratch / "triton"),
        # Triton asks for the home folder, which may be unwritable, when this is unset.
        TRITON_HOME=str(scratch),
        TMPDIR=str(scratch / "tmp"),
    )
    environment.update(overrides)
    return environment


def _is_foreign(name: str) -> bool:
    return name in _RANK_VARIABLES or name in _COMPILER_VARIABLES or name.startswith(_COMPILER_PREFIXES)
