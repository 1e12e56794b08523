"""What operators say of themselves that PyTorch has no public name for."""

from typing import Any

import torch

_OWN = ("aten", "prims", "prim")


def is_custom(target: Any) -> bool:
    """Whether it is an operator that somebody registered, rather than one of PyTorch's own."""
    return any(overload.namespace not in _OWN for overload in _overloads(target))


def namespace(target: Any) -> str | None:
    """That of a registered operator, or of one that stands for all its overloads; None for everything else."""
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace
    if isinstance(target, torch._ops.OpOverloadPacket):
        return str(target._qualified_op_name.split("::")[0])
    return None


def writes(target: Any) -> bool:
    """Whether the operator ``target`` says that it changes an argument. False for what is no registered operator."""
    return any(overload._schema.is_mutable for overload in _overloads(target))


def is_higher_order(target: object) -> bool:
    """Whether it takes graphs as arguments, as checkpointing and control flow do."""
    return isinstance(target, torch._ops.HigherOrderOperator)


def _overloads(target: Any) -> list[Any]:
    if isinstance(target, torch._ops.OpOverload):
        return [target]
    if isinstance(target, torch._ops.OpOverloadPacket):
        # A packet stands for the overload that fits; writing into `out` takes an argument that callers look for themselves.
        return [getattr(target, name) for name in target.overloads() if "out" not in name]
    return []
