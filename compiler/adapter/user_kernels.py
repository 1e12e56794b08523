"""Triton kernels of the user: described on the rank by their text, made anew on a worker.

A graph names such a kernel by its place in a table of the process (``kernel_side_table``, torch/_higher_order_ops/
triton_kernel_wrap.py), and so the values that a call passes as constants. All that Inductor asks of a kernel is its text with
what that uses, as it puts it into the code that it generates, and its configurations. So that is what travels, and what is in
the key; a worker needs no module of the user.
"""

import contextlib
import dataclasses
import linecache
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import torch
from torch._higher_order_ops import triton_kernel_wrap as _wrap
from torch._inductor.codegen import wrapper as _wrapper

from inductord.compiler.adapter.nodes import all_nodes

_WRAPPERS = (_wrap.triton_kernel_wrapper_functional, _wrap.triton_kernel_wrapper_mutation)


class NotDescribable(Exception):
    """Inductor would need more of the kernel than can be told. The message says what."""


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """One of an autotuned kernel. ``options``: what Triton takes beside the constants, such as ``num_warps``."""

    constants: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """``text``: the function and what it uses, without decorators; ``configurations``: None when it is not autotuned;
    ``restored``, ``zeroed``: names of arguments that tuning puts back or zeroes between two measurements."""

    name: str
    text: str
    configurations: tuple[Configuration, ...] | None = None
    restored: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One node that calls a kernel. The places are those in the table of the rank; they are no part of the key."""

    kernel: Kernel
    constants: tuple[tuple[str, Any], ...]
    kernel_place: int = dataclasses.field(repr=False)
    constants_place: int = dataclasses.field(repr=False)


class Described(tuple[Call, ...]):
    """The calls in a graph, in its order; ``repr`` is equal in every process. Where it is unpickled, the kernels are put into
    the table."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _enter, (tuple(self),)


def describe(gm: torch.fx.GraphModule) -> Described:
    """The calls of the user's kernels in a graph and in the graphs within it.

    Raises:
        NotDescribable: naming what stands in the way.
    """
    return Described(_call(node) for node in _calls(gm))


def _calls(gm: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    return (node for node in all_nodes(gm) if node.target in _WRAPPERS)


def _call(node: torch.fx.Node) -> Call:
    places: Any = node.kwargs["kernel_idx"], node.kwargs["constant_args_idx"]
    kernel = _described(_wrap.kernel_side_table.get_kernel(places[0]))
    constants = _wrap.kernel_side_table.get_constant_args(places[1])
    return Call(kernel, _values(kernel.name, constants), *places)


def _described(kernel: Any) -> Kernel:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    function = kernel.fn if type(kernel) is Autotuner else kernel
    if type(function) is not JITFunction:
        raise NotDescribable(f"a Triton kernel of the type {type(function).__qualname__}")
    name, text = function.__name__, _wrapper.user_defined_triton_kernel_transitive_closure_source_code(function)
    if function is kernel:
        return Kernel(name, text)
    configurations = tuple(_configuration(name, one) for one in kernel.configs)
    return Kernel(name, text, configurations, tuple(kernel.restore_value), tuple(kernel.reset_to_zero))


def _configuration(name: str, config: Any) -> Configuration:
    if config.pre_hook is not None:
        raise NotDescribable(f"a configuration of the Triton kernel {name} has a hook of this process")
    options = {option: value for option, value in config.all_kwargs().items() if option not in config.kwargs}
    return Configuration(_values(name, config.kwargs), _values(name, options))


def _values(kernel: str, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """In the order that is given: PyTorch keeps it."""
    for name, value in given.items():
        if not _travels(value):
            raise NotDescribable(f"{name} of the Triton kernel {kernel} is a {type(value).__qualname__}")
    return tuple(given.items())


def _travels(value: Any) -> bool:
    """Whether it says in words all that it is."""
    from triton.language import constexpr
    from triton.language import dtype as triton_dtype

    if type(value) is constexpr:
        return _travels(value.value)
    if type(value) in (tuple, list):
        return all(map(_travels, value))
    return value is None or type(value) in (bool, int, float, str, torch.dtype, triton_dtype)


@contextlib.contextmanager
def scope() -> Generator[None]:
    """Inside, the table of kernels is that of the graph that is loaded. One at a time."""
    table: Any = _wrap.kernel_side_table
    before = table.id_to_kernel, table.kernel_to_id, table.constant_args
    table.reset_table()
    try:
        yield
    finally:
        table.id_to_kernel, table.kernel_to_id, table.constant_args = before
        for file in _files:
            linecache.cache.pop(file, None)
        _files.clear()


_files: list[str] = []
"""Names under which the texts of kernels are known to ``inspect``, by which Triton reads them."""


def _enter(calls: tuple[Call, ...]) -> Described:
    """Make the kernels and put them where the graph looks for them."""
    table: Any = _wrap.kernel_side_table
    for call in calls:
        if call.kernel_place not in table.id_to_kernel:
            kernel = _made(call.kernel)
            table.id_to_kernel[call.kernel_place] = kernel
            table.kernel_to_id[kernel] = call.kernel_place
        table.constant_args[call.constants_place] = dict(call.constants)
    return Described(calls)


def _made(kernel: Kernel) -> Any:
    from torch._inductor.codegen.triton import TritonKernel
    from triton import Config
    from triton.runtime.autotuner import Autotuner

    # What the text may name beside itself is what Inductor imports where it puts it.
    text = f"{TritonKernel.gen_common_triton_imports()}\n@triton.jit\n{kernel.text}"
    file = f"<Triton kernel {len(_files)}>"
    _files.append(file)
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names: dict[str, Any] = {"__name__": file}
    exec(compile(text, file, "exec"), names)
    function = names[kernel.name]
    if kernel.configurations is None:
        return function
    configs = [Config(dict(one.constants), **dict(one.options)) for one in kernel.configurations]
    return Autotuner(function, function.arg_names, configs, [], list(kernel.zeroed), list(kernel.restored))
