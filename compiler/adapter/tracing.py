"""What code generation reads of the tracing context: symbolic shapes, and which saved tensors backward may overwrite."""

import contextlib
import dataclasses
from collections.abc import Generator
from typing import Any

import torch
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nested._internal.nested_int import NestedIntNode


@dataclasses.dataclass(slots=True)
class _ForwardMetadata:
    """The one field of AOTAutograd's forward metadata that Inductor reads while it generates code
    (``torch._inductor.utils.get_donated_idxs``)."""

    bw_donated_idxs: list[int] | None


def current_fake_mode() -> FakeTensorMode | None:
    """The fake mode of the graph that is being compiled."""
    context = TracingContext.try_get()
    return context.fake_mode if context is not None else None


def current_shape_environment() -> ShapeEnv | None:
    """The environment that guards of the graph being compiled are stated in."""
    fake_mode = current_fake_mode()
    return fake_mode.shape_env if fake_mode is not None else None


def is_static(example_inputs: Any) -> bool:
    """Whether all inputs are fake tensors whose sizes are numbers."""
    return all(isinstance(value, FakeTensor) and not value._has_symbolic_sizes_strides for value in example_inputs)


def donated_inputs() -> list[int] | None:
    """Indices of backward's inputs whose memory it may use again."""
    context = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return None
    donated: list[int] | None = context.fw_metadata.bw_donated_idxs
    return donated


def fresh_fake_mode() -> FakeTensorMode:
    """A fake mode with an empty shape environment, to load a graph into."""
    return FakeTensorMode(shape_env=fresh_shape_environment())


def fresh_shape_environment() -> ShapeEnv:
    """A shape environment that knows no symbol."""
    return ShapeEnv()


@contextlib.contextmanager
def restored(fake_mode: FakeTensorMode, donated: list[int] | None) -> Generator[None]:
    """Run the block in a tracing context like that of the rank."""
    context = TracingContext(fake_mode)
    metadata: Any = _ForwardMetadata(donated)
    context.fw_metadata = metadata
    with tracing(context):
        yield


def is_nested_int(value: object) -> bool:
    """Whether it stands, as a number of its own kind, for the lengths of the rows of a nested tensor."""
    return isinstance(value, torch.SymInt) and isinstance(value.node, NestedIntNode)


def nested_int(identity: int, factor: int) -> torch.SymInt:
    """The number that stands for ``factor`` times the row lengths numbered ``identity``; generated code reads neither."""
    return torch.SymInt(NestedIntNode(identity, factor))


def backed_symbols(example_inputs: Any) -> list[torch.SymInt]:
    """The symbolic sizes among the inputs that have a known value; guards are stated over these. Row lengths of nested tensors
    have none."""
    return [
        value
        for value in example_inputs
        if isinstance(value, torch.SymInt) and not value.node.is_nested_int() and value.node.hint is not None
    ]


def size_hints(example_inputs: Any) -> list[int]:
    """The values behind the symbolic sizes, in order."""
    return [int(symbol.node.hint) for symbol in backed_symbols(example_inputs)]


def guards_expression(example_inputs: Any) -> str | None:
    """All guards that hold over the symbolic sizes, as PyTorch states them for another process; ``None`` when there are no
    symbolic sizes."""
    symbols = backed_symbols(example_inputs)
    shape_env = current_shape_environment()
    if not symbols or shape_env is None:
        return None
    guards = shape_env.get_pruned_guards(symbols)
    expression: str | None = shape_env.produce_guards_expression(placeholders=symbols, guards=guards)
    return expression


def take_over_guards(expression: str | None, example_inputs: Any) -> bool:
    """Whether the guards hold for the sizes at hand; if so they become guards of the graph being compiled, so that another
    size compiles anew."""
    if not expression:
        return True
    shape_env = current_shape_environment()
    if shape_env is None:
        return False
    if not shape_env.evaluate_guards_expression(expression, size_hints(example_inputs)):
        return False
    return bool(shape_env.evaluate_guards_expression(expression, backed_symbols(example_inputs)))
