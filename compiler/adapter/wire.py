"""A graph with its inputs and options as bytes, and back.

``GraphPickler`` is PyTorch's own serialiser of FX graphs and fake tensors (torch/fx/_graph_pickler.py). The bytes of one
graph differ between processes, so they are no key.
"""

import dataclasses
import functools
import pickle
from typing import Any

import torch
from torch._inductor import config as _config
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.meta_utils import MetaTensorDesc
from torch.fx import _graph_pickler
from torch.fx.experimental import symbolic_shapes as _shapes

from inductord.compiler.adapter import configuration, neutral, operators, placement, tracing, user_kernels
from inductord.compiler.adapter.placement import Placement
from inductord.compiler.adapter.replacing import replaced
from inductord.compiler.adapter.seam import GraphCall

# Stacks that point into the rank's modules: large, often not serialisable, and read by no lowering.
_DROPPED_METADATA = frozenset(
    {
        "source_fn_stack",
        "nn_module_stack",
        "fwd_source_fn_stack",
        "fwd_nn_module_stack",
        "from_node",
        "output_stack_traces",
    }
)


class NotSerializable(Exception):
    """Something in the graph cannot leave the process. The message names it."""


class NotLoadable(Exception):
    """These bytes make no graph here: a custom operator is missing, or they come from another version."""


@dataclasses.dataclass(slots=True)
class Travelling:
    """What a worker needs to compile as the rank would have. Everything in it is also part of the key."""

    operators: operators.Described  # these come first: what follows needs them
    user_kernels: user_kernels.Described
    gm: torch.fx.GraphModule
    example_inputs: list[Any]
    inputs_to_check: list[int]
    options: dict[str, Any]
    config: dict[str, Any]
    donated_inputs: list[int] | None
    allow_non_fake_inputs: bool

    def call(self) -> GraphCall:
        """The call of the seam that this was made from."""
        return GraphCall(self.gm, self.example_inputs, self.inputs_to_check, self.options)


class _Pickler(_graph_pickler.GraphPickler):
    where = placement.CPU_ONLY

    def reducer_override(self, obj: Any) -> Any:
        if written := neutral.reduced(obj, self.where):
            return written
        if isinstance(obj, FakeTensorMode):
            # The description of a view holds the mode of its base. On the other side there is one mode: the reader's.
            return _readers_mode, (self._unpickle_state,)
        if isinstance(obj, MetaTensorDesc) and obj.requires_grad and not obj.is_leaf:
            # On the other side such a tensor would get a made-up history, for which autograd asks the device for its stream:
            # a worker without that device would abort. Compiling asks for requires_grad and never for the history.
            return dataclasses.replace(obj, is_leaf=True).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if isinstance(obj, FakeTensor) and obj.layout is torch.sparse_coo:
            form = (obj.sparse_dim(), obj.dense_dim(), tuple(obj.shape), obj.dtype, obj.device, obj.is_coalesced())
            return _sparse, (self._unpickle_state, *form)
        if tracing.is_nested_int(obj):
            return tracing.nested_int, (obj.node.t_id, obj.node.coeff)
        if isinstance(obj, torch.SymInt):
            _, (data, state) = super().reducer_override(obj)
            return _symbolic, (self._nodes.setdefault(id(obj.node), data), state)
        return super().reducer_override(obj)

    @functools.cached_property
    def _nodes(self) -> dict[int, Any]:
        """What stands for the nodes of symbolic numbers. Numbers that have a node in common have one on the other side, too:
        passes that trace tell numbers apart by it."""
        return {}


def _symbolic(data: Any, state: Any) -> torch.SymInt:
    if not hasattr(data, "node"):
        data.node = data.unpickle_sym_int(state).node
        # PyTorch works out what it is not told. A number that only running told when the rank made it, and that was found out
        # later, would have a value here and none there, and both count for the key.
        data.node._hint = data.hint
    return torch.SymInt(data.node)


def _sparse(
    state: Any,
    sparse_dim: int,
    dense_dim: int,
    shape: tuple[Any, ...],
    dtype: torch.dtype,
    device: torch.device,
    is_coalesced: bool,
) -> torch.Tensor:
    """PyTorch's own way makes such tensors by an operator that takes numbers only, so symbolic sizes would become numbers in
    all of the graph. As there, it has no elements."""
    with state.fake_mode:
        indices = torch.empty((sparse_dim, 0), dtype=torch.int64, device=device)
        values = torch.empty((0, *shape[sparse_dim:]), dtype=dtype, device=device)
        made: torch.Tensor = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
            sparse_dim,
            dense_dim,
            shape,
            indices,
            values,
            dtype=dtype,
            layout=torch.sparse_coo,
            device=device,
            is_coalesced=is_coalesced,
        )
    return made


def _readers_mode(state: Any) -> FakeTensorMode:
    mode: FakeTensorMode = state.fake_mode
    return mode


# Their names or identities are parts of the key, so PyTorch leaves them out of the configuration that it can carry elsewhere.
_PASSES = (
    "joint_custom_post_pass",
    "joint_custom_pre_pass",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
    "_pre_fusion_custom_pass",
    "_fuse_ddp_communication_passes",
)


def _passes() -> dict[str, Any]:
    """The job's own passes. They travel as names of what workers import."""
    return {name: value for name in _PASSES if (value := getattr(_config, name, None)) is not None}


def _keep_metadata(key: str) -> bool:
    return key not in _DROPPED_METADATA


def dumps(call: GraphCall, where: Placement = placement.CPU_ONLY) -> bytes:
    """Serialise a graph. Leaves it as it was.

    Args:
        call: the graph.
        where: its placement in this process; its own device is written as the one that it travels as.

    Raises:
        NotSerializable: naming what cannot be.
    """
    fake_mode = tracing.current_fake_mode()
    travelling = Travelling(
        operators=operators.describe(call.gm),
        user_kernels=call.user_kernels,
        gm=call.gm,
        example_inputs=list(call.example_inputs),
        inputs_to_check=list(call.inputs_to_check),
        options=dict(placement.options(call, where)),
        config=configuration.portable() | _passes(),
        donated_inputs=tracing.donated_inputs(),
        allow_non_fake_inputs=fake_mode.allow_non_fake_inputs if fake_mode is not None else False,
    )
    # The default filter lets only aten and fbgemm operators pass. Whether a worker has the others, it will tell.
    options = _graph_pickler.Options(ops_filter=None, node_metadata_key_filter=_keep_metadata)
    try:
        # The class is what GraphPickler makes its pickler of; it passes nothing else on.
        pickler: Any = type("_Placed", (_Pickler,), {"where": where})
        with placement.renamed(call.gm, where):
            return pickler.dumps(travelling, options)
    except Exception as error:  # what it is depends on the object that does not pickle, and may be anything
        raise NotSerializable(f"{type(error).__name__}: {error}") from error


def loads(content: bytes, fake_mode: FakeTensorMode) -> Travelling:
    """A graph from its bytes, its fake tensors belonging to ``fake_mode``. Runs whatever the bytes say: for workers only.

    Raises:
        NotLoadable: with the reason.
    """
    try:
        # Before 2.13, PyTorch asks of a tensor that it makes again what only running the graph tells, and raises. As in later
        # releases, what cannot be told is answered with no, after which it goes the way that is always right.
        with replaced("torch.SymBool.__bool__", _shapes.guard_or_false):
            travelling = _Pickler.loads(content, fake_mode)
    except Exception as error:
        raise NotLoadable(f"{type(error).__name__}: {error}") from error
    if not isinstance(travelling, Travelling):
        raise NotLoadable(f"the bytes hold a {type(travelling).__name__}")
    operators.note(travelling.gm, fake_mode)
    fake_mode.allow_non_fake_inputs = travelling.allow_non_fake_inputs
    return travelling
