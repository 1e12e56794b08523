"""Code of the job that AOTAutograd runs while it traces, beside PyTorch's own. What it did is in the result, and PyTorch's key
of that result has its name at most. So another job, whose code of that name may be other code, must not be given the result.

Of an operator that somebody registered: what it is composed of, its gradient, its shapes. Of a tensor subclass: how it
dispatches. Decompositions, kernels of PyTorch's operators above autograd, patterns on joint graphs, functions in AOTAutograd's
configuration. Inductor's graphs come after all this, and their keys tell them apart.
"""

import contextlib
import contextvars
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import torch
from torch._functorch import config as _functorch_config
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inductord.compiler.adapter import decomposed, replaced_parts, schema
from inductord.compiler.adapter.nodes import all_nodes

_NAMESPACES = frozenset(
    {
        "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_quantized", "aten", "bucketing", "c10d",
        "c10d_functional", "cplib", "debugprims", "device_mesh", "export", "flex_lib", "fsdp",
        "higher_order", "inductor", "inductor_prims", "mkl", "mkldnn", "mkldnn_prepacked", "onednn",
        "prim", "prims", "profiler", "quantization", "quantized", "quantized_decomposed", "rngprims",
        "sparse", "streams", "symm_mem", "torch_attn",
    }
)  # fmt: skip
"""Of PyTorch's operators, whose code is that of PyTorch's version. Another one is taken for the job's."""

_NOT_LOOKED_AT = "it came to AOTAutograd another way than through torch.compile"
_unshared: contextvars.ContextVar[str | None] = contextvars.ContextVar("inductord_unshared", default=_NOT_LOOKED_AT)


@contextlib.contextmanager
def judged(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Generator[None]:
    """Inside, ``unshared`` is about this graph of Dynamo."""
    token = _unshared.set(_why(gm, example_inputs))
    try:
        yield
    finally:
        _unshared.reset(token)


def _why(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> str | None:
    try:
        code = found(gm, example_inputs)
    except Exception as error:  # noqa: BLE001 - a subclass may raise anything when it is asked for its parts
        return f"its tensors cannot be looked into: {error}"
    return None if code is None else f"{code} is the job's own"


def unshared() -> str | None:
    """Why AOTAutograd's result of the graph that is being compiled is that of this process only; None if it is not."""
    return _unshared.get()


def found(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> str | None:
    """In words, such code that AOTAutograd runs for a graph; None when there is none.

    Args:
        gm: the graph as Dynamo captured it.
        example_inputs: its inputs.
    """
    if of_process := next(_of_process(), None):
        return of_process
    values = list(example_inputs)
    for node in all_nodes(gm):
        for operator in _called(node):
            if (schema.namespace(operator) or "aten") not in _NAMESPACES:
                return f"the operator {operator}"
        values.append(node.meta.get("example_value"))
    foreign = (kind for value in pytree.tree_leaves(values) for kind in _kinds(value) if not _of_torch(kind))
    return next((f"the tensor subclass {kind.__qualname__}" for kind in foreign), None)


def _of_process() -> Iterator[str]:
    # Others are met only where the graph says so: torchao, for one, decomposes operators of its own.
    own = (target for target in decomposed.found() if getattr(target, "namespace", None) in _NAMESPACES)
    yield from (f"the decomposition of {target}" for target in own)
    yield from (f"a pattern of {name}" for name in replaced_parts.patterns_of_joint_graphs())
    yield from (f"the kernel {name}" for name in sorted(filter(_is_above_autograd, torch.library._impls)))
    config = _functorch_config.save_config_portable(ignore_private_configs=False)
    yield from (f"{name} of AOTAutograd's configuration" for name, value in config.items() if callable(value))


def _is_above_autograd(kernel: str) -> bool:
    """``kernel``: as ``aten/sin/AutogradCPU``. PyTorch itself registers none of these in Python; those of ``prims`` it does."""
    namespace, *_, key = kernel.split("/")
    return namespace == "aten" and key.startswith(("Autograd", "Composite"))


def _called(node: torch.fx.Node) -> list[Any]:
    """Operators are arguments of those of higher order only."""
    others = pytree.tree_leaves((node.args, node.kwargs)) if schema.is_higher_order(node.target) else []
    return [node.target, *others]


def _kinds(value: Any) -> Iterator[type]:
    """The class of a tensor, and of the tensors that it is made of."""
    if not isinstance(value, torch.Tensor):
        return
    yield type(value)
    wrapper: Any = value
    if is_traceable_wrapper_subclass(wrapper):
        for name in wrapper.__tensor_flatten__()[0]:
            yield from _kinds(getattr(wrapper, name))


def _of_torch(kind: type) -> bool:
    return replaced_parts.of_torch(kind.__module__)
