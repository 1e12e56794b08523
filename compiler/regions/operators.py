"""What the search knows of operators: by name, since a Dynamo graph mixes functions, methods and registered operators.

An operator that is in none of these sets is treated with care: it may be fused, it is not moved, it does not write.
"""

import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True)
class Operator:
    """What is known of a call's target.

    ``name``: bare, such as ``linear`` for ``torch.nn.functional.linear`` and ``add`` for ``aten.add.Tensor``.
    ``materialised``: whether its result is written to memory whatever comes before and after.
    ``view``, ``size``, ``number``: whether it is one of `VIEWS`, of `SIZES`, or arithmetic on numbers.
    ``writes_first``, ``writes``: whether it changes its first argument, or any.
    ``work``: see `WORK`.
    """

    name: str
    materialised: bool
    view: bool
    size: bool
    number: bool
    writes_first: bool
    writes: bool
    work: int


def describe(target: Any) -> Operator:
    """Facts of an operator; ``target`` is that of a call: a function, a registered operator or a method's name."""
    name = _name(target)
    custom = schema.is_custom(target)
    module = getattr(target, "__module__", "")
    # What ends in an underscore writes, but operator.and_ and the like, which only avoid a keyword.
    writes_first = name in _IN_PLACE_OPERATORS or (name.endswith("_") and module != "_operator")
    return Operator(
        name,
        materialised=name in MATERIALISED or custom or schema.is_higher_order(target),
        view=name in VIEWS and not custom,
        size=name in SIZES and not custom,
        number=module in ("_operator", "math", "torch"),
        writes_first=writes_first,
        writes=schema.writes(target),
        work=WORK.get(name, 1),
    )


def _name(target: Any) -> str:
    if isinstance(target, str):
        return target
    name: str = getattr(target, "__name__", "") or type(target).__name__
    return name.strip("_") if name.endswith("__") else name.partition(".")[0].lstrip("_")


def written(node: fx.Node, known: Operator) -> list[fx.Node]:
    """The arguments that it changes, by the signs that do not depend on values; where those do not say which, all of them."""
    if node.kwargs:
        out = node.kwargs.get("out")
        if out is not None:
            return [
                each for each in node.all_input_nodes if each is out or (isinstance(out, tuple | list) and each in out)
            ]
        if node.kwargs.get("inplace") is True:
            return node.all_input_nodes[:1]
    if known.writes_first:
        return node.all_input_nodes[:1]
    return node.all_input_nodes if known.writes else []
