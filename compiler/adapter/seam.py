"""Where Inductor hands a graph over, and how to let it compile in this process.

``torch._inductor.compile_fx.fx_codegen_and_compile`` is called for each graph that no local cache answered, forward,
backward and inference alike. It picks an ``FxCompile`` scheme; we stand in its place and decide per call.
"""

import contextvars
import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from inductord.v1.compiler_pb2 import GraphKind

if TYPE_CHECKING:
    from inductord.compiler.adapter.user_kernels import Described


@dataclasses.dataclass(frozen=True)
class GraphCall:
    """One call of the seam: a post-AOTAutograd graph, its example inputs (fake tensors and symbolic sizes), the indices of
    inputs whose alignment is checked at run time, and Inductor's compile options."""

    gm: torch.fx.GraphModule
    example_inputs: Sequence[Any]
    inputs_to_check: Sequence[int]
    options: Mapping[str, Any]

    @property
    def kind(self) -> GraphKind:
        """Forward, backward or inference."""
        if self.options.get("is_backward"):
            return GraphKind.GRAPH_KIND_BACKWARD
        if self.options.get("is_inference"):
            return GraphKind.GRAPH_KIND_INFERENCE
        return GraphKind.GRAPH_KIND_FORWARD

    @property
    def nodes(self) -> int:
        """Number of FX nodes."""
        return len(self.gm.graph.nodes)

    @functools.cached_property
    def user_kernels(self) -> "Described":
        """The calls of the user's Triton kernels. Asked for by the key, and again where the graph is sent: described once.

        Raises:
            NotDescribable: naming what stands in the way.
        """
        # It imports Inductor, which a process that compiles nothing does not pay for.
        from inductord.compiler.adapter.user_kernels import describe

        return describe(self.gm)


InProcess = Callable[[], Any]
Router = Callable[[GraphCall, InProcess], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class DynamoCall:
    """One call of ``compile_fx``: a graph as Dynamo captured it, its inputs, what compiles each graph that AOTAutograd makes
    of it, and Inductor configuration for it alone."""

    gm: Any
    example_inputs: Sequence[Any]
    inner: Callable[..., Any]
    patches: dict[str, Any]


Entry = Callable[[DynamoCall, InProcess], Any]

_lock = threading.Lock()
_installed = False
_entry_installed = False
_entered: contextvars.ContextVar[bool] = contextvars.ContextVar("inductord_entered", default=False)


def install(router: Router) -> None:
    """Let ``router`` decide about every graph from now on. Once per process; later calls change nothing.

    ``router`` gets the call and a function that compiles it in this process, as Inductor would have.
    """
    global _installed
    with _lock:
        if _installed:
            return
        inductor = _inductor()
        original = inductor.fx_codegen_and_compile

        def routed(
            gm: torch.fx.GraphModule,
            example_inputs: Sequence[Any],
            inputs_to_check: Sequence[int],
            compile_region_name: str | None = None,
            **options: Any,
        ) -> Any:
            region = {} if compile_region_name is None else {"compile_region_name": compile_region_name}

            def in_process() -> Any:
                return original(gm, example_inputs, inputs_to_check, **region, **options)

            return router(GraphCall(gm, example_inputs, inputs_to_check, options), in_process)

        inductor.fx_codegen_and_compile = routed
        _installed = True


def compile_fx(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], wrap_inner: Callable[[Any], Any], patches: dict[str, Any]
) -> Any:
    """Inductor's ``compile_fx`` with ``wrap_inner`` around the compile of each post-AOTAutograd graph.

    The wrapper also surrounds backward graphs, which are compiled later, when the backend's call has long returned.
    """
    inductor = _inductor()
    token = _entered.set(True)
    try:
        return inductor.compile_fx(
            gm, example_inputs, inner_compile=wrap_inner(inductor.compile_fx_inner), config_patches=patches
        )
    finally:
        _entered.reset(token)


def install_entry(entry: Entry) -> None:
    """Let ``entry`` decide about every graph that Dynamo hands to Inductor from now on. Once per process.

    ``entry`` gets the call and a function that compiles the graph whole, as Inductor would have. Calls that Inductor makes of
    itself, and those of ``compile_fx`` above, do not come to it.
    """
    global _entry_installed
    with _lock:
        if _entry_installed:
            return
        inductor = _inductor()
        original = inductor.compile_fx

        @functools.wraps(original)
        def entered(
            model_: Any,
            example_inputs_: Sequence[Any],
            inner_compile: Callable[..., Any] = inductor.compile_fx_inner,
            config_patches: dict[str, Any] | None = None,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            def whole() -> Any:
                token = _entered.set(True)
                try:
                    return original(model_, example_inputs_, inner_compile, config_patches, *args, **kwargs)
                finally:
                    _entered.reset(token)

            # Own decompositions or an own inner compile: a caller who knows better.
            usual = inner_compile is inductor.compile_fx_inner and not any(args) and not any(kwargs.values())
            if _entered.get() or not usual:
                return whole()
            return entry(DynamoCall(model_, example_inputs_, inner_compile, dict(config_patches or {})), whole)

        inductor.compile_fx = entered
        _entry_installed = True


def compile_inner(wrap: Callable[[Any], Any]) -> Any:
    """Inductor's ``compile_fx_inner``, wrapped."""
    return wrap(_inductor().compile_fx_inner)


def _inductor() -> Any:
    # Not imported with this module: where the environment asks for inductord, the hook sets the seam at the end of this
    # very import, and needs this module whole.
    from torch._inductor import compile_fx

    return compile_fx


def inductor_options(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None = None) -> dict[str, Any]:
    """``mode`` and ``options`` of ``torch.compile`` as Inductor config patches, checked as Inductor checks them.

    Raises:
        RuntimeError: an unknown mode or option, with PyTorch's message.
    """
    wrapper = torch._TorchCompileInductorWrapper(mode, options, dynamic)
    return dict(wrapper.config)
