"""What ``import torch`` does to a process, before and after Inductor is needed. Prints it."""

import inspect
import json
import sys

import torch


def of_ours() -> list[str]:
    """Imported modules of inductord and of what it needs."""
    return sorted(name for name in sys.modules if name.split(".")[0] in ("inductord", "grpc", "google"))


before = {
    "torch": torch.__version__,
    "before": of_ours(),
    "inductor_before": "torch._inductor.compile_fx" in sys.modules,
    "finders": [type(finder).__name__ for finder in sys.meta_path],
}

from torch._inductor import compile_fx  # noqa: E402 - when it is imported is what this is about

spec = compile_fx.__spec__
assert spec is not None
after = {
    "after": of_ours(),
    "loader": type(spec.loader).__name__,
    "module_loader": type(compile_fx.__loader__).__name__,
    "spec_name": spec.name,
    "origin": spec.origin == compile_fx.__file__,
    "source": inspect.getsource(compile_fx)[:40],
    "function_source": inspect.getsource(compile_fx.compile_fx)[:14],
    "seam": compile_fx.fx_codegen_and_compile.__module__,
}
print(json.dumps(before | after))
