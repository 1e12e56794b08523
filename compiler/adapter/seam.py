"""Where Inductor hands a graph over, and how to let it compile in this process.

``torch._inductor.compile_fx.fx_codegen_and_compile`` is called for each graph that no local cache answered, forward,
backward and inference alike. It picks an ``FxCompile`` scheme; we stand in its place and decide per call.
"""

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from inductord.v1.compiler_pb2 import GraphKind


@dataclasses.dataclass(frozen=True, slots=True)
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


InProcess = Callable[[], Any]
Router = Callable[[GraphCall, InProcess], Any]

_lock = threading.Lock()
_installed = False


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
    return inductor.compile_fx(
        gm, example_inputs, inner_compile=wrap_inner(inductor.compile_fx_inner), config_patches=patches
    )


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
