"""What the search knows of operators: by name, since a Dynamo graph mixes functions, methods and registered operators.

An operator that is in none of these sets is treated with care: it may be fused, it is not moved, it does not write.
"""

from typing import Any

from torch import fx

from inductord.compiler.adapter import schema

VIEWS = frozenset(
    """alias as_strided bfloat16 broadcast_to chunk contiguous detach diagonal double expand expand_as flatten float
    getattr getitem half movedim moveaxis narrow permute ravel real reshape reshape_as select split split_with_sizes squeeze
    swapaxes swapdims t tensor_split to transpose type type_as unbind unflatten unfold unsqueeze view view_as""".split()  # noqa: SIM905
)
"""Give a view of their first argument where its layout allows it, and read nothing but the layout."""

SIZES = frozenset("dim getattr getitem numel size stride sym_size sym_stride sym_numel".split())  # noqa: SIM905
"""Read nothing but the layout and give numbers."""

MATERIALISED = frozenset(
    """matmul mm bmm mv dot addmm addmv addbmm baddbmm einsum linear bilinear tensordot inner outer kron
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
    scaled_dot_product_attention multi_head_attention_forward lstm gru rnn_tanh rnn_relu
    sort argsort topk kthvalue unique unique_consecutive nonzero multinomial searchsorted bucketize
    cumsum cumprod cummax cummin logcumsumexp histc bincount grid_sample
    fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn stft istft
    cholesky qr svd eigh solve inv lstsq grouped_mm scaled_mm ctc_loss""".split()  # noqa: SIM905
)
"""Inductor gives these to a library or a template, which writes its result to memory and fuses with little else."""

_IN_PLACE_OPERATORS = frozenset(
    "iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor setitem delitem".split()  # noqa: SIM905
)

_HARMLESS = frozenset({"log_api_usage_once"})
"""Take nothing from the graph, give it nothing, and do not change how it computes."""

WORK = {
    "batch_norm": 10,
    "cross_entropy": 10,
    "dropout": 4,
    "einsum": 2,
    "embedding": 3,
    "gelu": 5,
    "group_norm": 10,
    "instance_norm": 10,
    "interpolate": 8,
    "layer_norm": 8,
    "linear": 2,
    "log_softmax": 4,
    "mse_loss": 3,
    "nll_loss": 5,
    "rms_norm": 5,
    "scaled_dot_product_attention": 4,
    "silu": 3,
    "softmax": 4,
}
"""How many simple operations stand behind an operator when it is compiled, forward and backward over two; 1 for others."""


def name_of(node: fx.Node) -> str:
    """The operator's bare name: ``linear`` for ``torch.nn.functional.linear``, ``add`` for ``aten.add.Tensor``."""
    target = node.target
    if isinstance(target, str):
        return target
    name: str = getattr(target, "__name__", "") or type(target).__name__
    return name.partition(".")[0].lstrip("_") if not name.endswith("__") else name.strip("_")


def materialises(node: fx.Node, name: str) -> bool:
    """Whether its result is written to memory whatever comes before and after."""
    return name in MATERIALISED or schema.is_higher_order(node.target) or schema.is_custom(node.target)


def written(node: fx.Node, name: str) -> list[fx.Node]:
    """The arguments that it changes, by the signs that do not depend on values; where those do not say which, all of them."""
    out = node.kwargs.get("out")
    if out is not None:
        return [each for each in node.all_input_nodes if each is out or (isinstance(out, tuple | list) and each in out)]
    # What ends in an underscore writes, but operator.and_ and the like, which only avoid a keyword.
    first = name in _IN_PLACE_OPERATORS or (
        name.endswith("_") and getattr(node.target, "__module__", "") != "_operator"
    )
    if first or node.kwargs.get("inplace") is True:
        return node.all_input_nodes[:1]
    return node.all_input_nodes if schema.writes(node.target) else []


class Contexts:
    """Follows contexts such as autocast, which a Dynamo graph enters and leaves by calls."""

    def __init__(self) -> None:
        self._open = 0
        self._grad_outside: object = None  # the gradient mode that holds outside of `no_grad` and `enable_grad`

    def covers(self, node: fx.Node, name: str, value: Any) -> bool:
        """Whether ``node``, the next call of the graph, opens a context, closes one, or runs in one."""
        if node.op != "call_function":
            return self._open > 0
        before = self._open
        if name.startswith("enter_") or name.endswith("increment_nesting"):
            self._open += 1
        elif name.startswith("exit_") or name.endswith("decrement_nesting"):
            self._open -= 1
        elif name == "set_grad_enabled":
            self._switch_gradients(node.args[0])
        elif value is None and not node.all_input_nodes and not node.users and name not in _HARMLESS:
            # It takes nothing from the graph and gives it nothing, so it changes the process, for all we know for good.
            self._open += 1
        return max(before, self._open) > 0

    def _switch_gradients(self, enabled: object) -> None:
        # Dynamo switches them back where the context ends, so the first switch says what holds outside.
        if self._grad_outside is None:
            self._grad_outside = not enabled
            self._open += 1
        else:
            self._open += -1 if enabled == self._grad_outside else 1
