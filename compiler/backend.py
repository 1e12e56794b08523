"""The door for scripts that ask: ``torch.compile(model, backend="inductord")``."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductord.compiler import routing
from inductord.compiler.adapter import seam
from inductord.compiler.settings import checked_regions

_REGIONS = "inductord_regions"


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
        options: Inductor config names to values; and ``inductord_regions``, which is ``"off"``, ``"auto"`` or ``"force"``:
            whether repeated pieces of the graph are compiled once and composed.

    Raises:
        RuntimeError: an unknown mode or option, as Inductor says it.
        SettingsError: an unknown value of ``inductord_regions``.
    """
    options = dict(options or {})
    regions = options.pop(_REGIONS, None)
    if regions is not None:
        checked_regions(regions, _REGIONS)
    patches = seam.inductor_options(mode, options)
    call = seam.DynamoCall(gm, example_inputs, seam.compile_inner(_through_daemon), patches)
    return routing.enter(  # type: ignore[no-any-return]
        call, lambda: seam.compile_fx(gm, example_inputs, _through_daemon, patches), regions
    )


def _through_daemon(inner_compile: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner_compile)
    def routed(*args: Any, **kwargs: Any) -> Any:
        with routing.asked():
            return inner_compile(*args, **kwargs)

    return routed
