"""The door for scripts that ask: ``torch.compile(model, backend="inductord")``."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductord.compiler import routing
from inductord.compiler.adapter import seam


def inductord(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Inductor, with each graph compiled once per node by the inductord daemon.

    Takes what ``backend="inductor"`` takes. Without a daemon, graphs are compiled in this process.

    Args:
        gm: the graph that Dynamo captured.
        example_inputs: its inputs, as fake tensors and symbolic sizes.
        mode: as ``torch.compile`` takes it.
        options: Inductor config names to values.

    Raises:
        RuntimeError: an unknown mode or option, as Inductor says it.
    """
    return seam.compile_fx(gm, example_inputs, _through_daemon, seam.inductor_options(mode, options))  # type: ignore[no-any-return]


def _through_daemon(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner_compile)
    def routed(*args: Any, **kwargs: Any) -> Any:
        with routing.asked():
            return inner_compile(*args, **kwargs)

    return routed
