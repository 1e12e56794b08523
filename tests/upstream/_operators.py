"""Compiles PyTorch's operators as its test database calls them: the job of ``operators.py``. It knows nothing of inductord.

python _operators.py EVERY

Prints a line of JSON for each: the name, and a digest of the exact bits of outputs and gradients or the kind of error.
"""

import hashlib
import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

torch.set_num_threads(1)


def digest(values: list[Any]) -> str:
    """SHA-256 over types, shapes and exact bits; what is no tensor counts by its text."""
    sha = hashlib.sha256()
    for value in values:
        if not isinstance(value, torch.Tensor):
            sha.update(repr(value).encode())
            continue
        value = value.detach().resolve_conj().resolve_neg()
        if value.layout != torch.strided:
            value = value.to_dense()
        sha.update(f"{value.dtype} {tuple(value.shape)}".encode())
        sha.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def _leaf(value: Any) -> Any:
    """A tensor of a sample as a leaf of its own: a sample may hold views."""
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


def run(op: Any) -> str:
    """The first sample of an operator, compiled; forward, and backward where it has one."""
    torch.compiler.reset()
    torch.manual_seed(0)
    differentiable = op.supports_autograd
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=differentiable)))
    call = tree_map(_leaf, (sample.input, sample.args, sample.kwargs))
    compiled = torch.compile(lambda first, rest, more: op(first, *rest, **more))
    torch.manual_seed(0)
    out = compiled(*call)
    values = tree_leaves(out)
    outputs = [value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]
    inputs = [value for value in tree_leaves(call) if isinstance(value, torch.Tensor) and value.requires_grad]
    if outputs and inputs:
        torch.manual_seed(0)
        values += torch.autograd.grad(outputs, inputs, [torch.ones_like(value) for value in outputs], allow_unused=True)
    return digest(values)


def named() -> Iterator[tuple[str, Any]]:
    """All that take float32 on a CPU."""
    for op in op_db:
        if op.supports_dtype(torch.float32, "cpu"):
            yield f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name, op


def main() -> None:
    for name, op in itertools.islice(named(), 0, None, int(sys.argv[1])):
        try:
            found = {"digest": run(op)}
        except Exception as error:  # noqa: BLE001 -- that it fails alike is what is looked at
            found = {"error": type(error).__name__, "said": str(error)[:500]}
        print(json.dumps({"name": name} | found), flush=True)


if __name__ == "__main__":
    main()
