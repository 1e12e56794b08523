"""inductord: a per-node compile daemon for PyTorch training.

Ranks that meet the same graph have it compiled once. Three ways to use it from a training script, all optional:

* ``inductord run -- torchrun ... train.py`` routes every ``torch.compile`` of an unmodified script through the daemon;
* ``torch.compile(model, backend="inductord")`` asks for it in the script;
* ``inductord.fw_compiler``, ``bw_compiler`` and ``inference_compiler`` are compilers for ``aot_function``, ``aot_module`` and
  their relatives, and ``inductord.decompositions`` the operators that these should split.

This package imports nothing on its own: a rank pays for what it uses.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inductord.compiler.doors import bw_compiler, decompositions, fw_compiler, inference_compiler

__all__ = ["bw_compiler", "decompositions", "fw_compiler", "inference_compiler"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The daemon imports this package as well, and must never import torch.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from inductord.compiler import doors

    return getattr(doors, name)
