"""Which graphs cannot travel, and why. Asked before a key is computed."""

import contextlib
import os
from collections.abc import Generator
from typing import Any

import torch
from torch._inductor import codecache as _codecache
from torch._inductor import config as _config
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V
from torch._logging import _internal as _logging

from inductord.compiler import triton_variables
from inductord.compiler.adapter import (
    configuration,
    opaque,
    replaced_methods,
    replaced_parts,
    schema,
    tracing,
    user_kernels,
)
from inductord.compiler.adapter.nodes import all_nodes
from inductord.compiler.adapter.replacing import replaced
from inductord.compiler.adapter.seam import GraphCall
from inductord.compiler.reasons import Fallback

# Higher-order operators that PyTorch has not yet marked as cacheable, though all that they do is in the graph: their arguments
# are tensors, numbers, words, graphs and generators, which are hashed and serialised as the outer graph is.
_PLAIN = frozenset(
    {
        "associative_scan",
        "cond",
        "foreach_map",
        "graphsafe_run_with_rng_state",
        "hints_wrapper",
        "inline_asm_elementwise",
        "map_impl",
        "out_dtype",
        "print",
        "scan",
        "while_loop",
        "while_loop_stack_output",
        "with_effects",
    }
)


# What TORCH_LOGS may ask for that is said while code is generated (torch/_logging/_registrations.py); releases differ.
_SAID_WHILE_COMPILING = (
    "autotuning",
    "compute_dependencies",
    "fusion",
    "inductor_metrics",
    "ir_post_fusion",
    "ir_pre_fusion",
    "loop_ordering",
    "loop_tiling",
    "node_runtime_estimation",
    "overlap",
    "partitioned_scatter",
    "perf_hints",
    "post_grad_graphs",
    "schedule",
)

# Of Inductor's own tests; releases differ. Its tests want its caches to know nothing of them.
_IN_NO_KEY = ("always_complex_memory_overlap_TESTING_ONLY", "force_disable_cudagraph_TESTING_ONLY")


class Bypass(Exception):
    """This graph is compiled by the rank. ``reason`` is counted, the message is for people."""

    def __init__(self, reason: Fallback, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check(call: GraphCall) -> None:
    """Pass, or say why this graph must be compiled where it is.

    Raises:
        Bypass: with the reason.
    """
    if V.aot_compilation:
        raise Bypass(Fallback.NOT_CACHEABLE, "ahead-of-time compilation (AOTInductor) makes a package, not an artifact")
    if _config.force_disable_caches:
        raise Bypass(
            Fallback.NOT_CACHEABLE, "force_disable_caches (TORCHINDUCTOR_FORCE_DISABLE_CACHES) asks for a compile"
        )
    if setting := next((name for name in _IN_NO_KEY if getattr(_config, name, False)), None):
        raise Bypass(Fallback.NOT_CACHEABLE, f"{setting} decides whether there are CUDA graphs, and no key has it")
    if _config.trace.enabled:
        raise Bypass(Fallback.DEBUG_TRACE, "TORCH_COMPILE_DEBUG writes its files where the graph is compiled")
    if log := next(filter(_logging.log_state.is_artifact_enabled, _SAID_WHILE_COMPILING), None):
        raise Bypass(Fallback.DEBUG_TRACE, f"TORCH_LOGS asks for {log}, which is said where the graph is compiled")
    if torch.version.cuda is not None and (variable := triton_variables.local(os.environ)):
        raise Bypass(Fallback.DEBUG_TRACE, f"{variable} is for the process that compiles kernels")
    if type(V.choices) is not InductorChoices:
        raise Bypass(Fallback.NOT_CACHEABLE, f"{type(V.choices).__qualname__} decides in place of Inductor's choices")
    if part := next(iter(replaced_methods.found()), None) or replaced_parts.deciding(call.gm):
        raise Bypass(Fallback.NOT_CACHEABLE, f"{part} is not Inductor's own, and no other process has it")
    try:
        _ = call.user_kernels
    except user_kernels.NotDescribable as reason:
        raise Bypass(Fallback.USER_TRITON_KERNEL, str(reason)) from reason
    if name := opaque.held_by(call.gm):
        raise Bypass(Fallback.NOT_CACHEABLE, f"a {name} is held by the graph, and no other process has it")
    try:
        marked = _config.patch(unsafe_marked_cacheable_functions=_marked(call.gm))
        with marked, configuration.of_graphs(), _shape_environment(call):
            _codecache.FxGraphCache._check_can_cache(call.gm, *_validator_arguments(call))
    except _codecache.BypassFxGraphCache as reason:
        raise Bypass(Fallback.NOT_CACHEABLE, str(reason)) from reason


@contextlib.contextmanager
def _shape_environment(call: GraphCall) -> Generator[None]:
    """PyTorch asks for the one that guards are stated in. Graphs that come from elsewhere than Dynamo may be traced without,
    and need none where no size is symbolic."""
    if tracing.current_shape_environment() is not None or not tracing.is_static(call.example_inputs):
        yield
        return
    with replaced("torch._inductor.codecache.FxGraphCache._get_shape_env", tracing.fresh_shape_environment):
        yield


def _marked(gm: torch.fx.GraphModule) -> dict[str, str]:
    """What the user marked as cacheable, and the operators of ``_PLAIN`` that the graph has, as PyTorch names them."""
    marked = dict(_config.unsafe_marked_cacheable_functions)
    for node in all_nodes(gm):
        target: Any = node.target
        if schema.is_higher_order(target) and target.__name__ in _PLAIN:
            marked[f"{target.__module__}.{target.__name__}"] = ""
    return marked


def _validator_arguments(call: GraphCall) -> tuple[object, ...]:
    # torch 2.11 looks at the graph alone; later releases at the inputs and options as well.
    takes = _codecache.FxGraphCache._check_can_cache.__code__.co_argcount
    return (call.example_inputs, dict(call.options)) if takes > 2 else ()
