"""What a composed graph needs of autograd beyond its public interface, as AOTAutograd's own runtime uses it
(``torch/_functorch/_aot_autograd/runtime_wrappers.py``)."""

import contextlib
from typing import Any

import torch


def autocast_is_on() -> bool:
    """Whether autocast is on for any device."""
    return torch._C._is_any_autocast_enabled()


def without_autocast(on: bool) -> contextlib.AbstractContextManager[Any]:
    """Turn autocast off, if it was ``on``: compiled graphs have their casts in them."""
    return torch._C._DisableAutocast() if on else contextlib.nullcontext()


def backward_comes_again() -> bool:
    """In backward: whether the caller keeps the graph, so that saved tensors are needed once more."""
    return torch._C._autograd._get_current_graph_task_keep_graph()


def no_view(tensor: Any) -> Any:
    """The same memory as a tensor that autograd does not take for a view: users may change outputs in place."""
    if isinstance(tensor, torch.Tensor) and tensor._is_view():
        return torch.ops.aten._unsafe_view(tensor, tensor.shape)
    return tensor


def saved_tensors_stay() -> bool:
    """Whether what is saved now comes back as it is: nobody has set hooks for saved tensors."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is None


def savable(tensor: torch.Tensor) -> torch.Tensor:
    """What to save of a tensor: a view would keep its history alive."""
    return tensor.detach() if tensor._is_view() else tensor


def end_forward(ctx: Any, not_differentiable: list[torch.Tensor]) -> None:
    """Tell autograd which outputs have no gradient."""
    ctx.mark_non_differentiable(*not_differentiable)
    ctx._materialize_non_diff_grads = False


def take_saved(ctx: Any) -> list[torch.Tensor]:
    """The saved tensors, which ``ctx`` lets go unless the caller keeps the graph."""
    saved = list(ctx.saved_tensors)
    ctx.maybe_clear_saved_tensors()
    return saved
