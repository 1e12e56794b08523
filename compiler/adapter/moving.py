"""A compiled graph that was made for one device, made ready for this rank's own: source, kernels, and what surrounds them.

The text of the wrapper is relocated by ``relocate``. Beside the text, a compiled graph names its device in a few fields, and
its kernels in theirs; they also hold paths of the worker, which become those of this rank.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch._inductor import codecache as _codecache
from torch._inductor.async_compile import CompiledTritonKernels
from torch._inductor.runtime import triton_heuristics as _heuristics
from torch.utils._ordered_set import OrderedSet

from inductord.compiler import relocate
from inductord.compiler.adapter.placement import Placement


def to_own_device(graph: Any, table: relocate.Table, where: Placement) -> None:
    """Change ``graph``, a ``CompiledFxGraph`` as it was shipped, so that it runs on this rank's own device.

    Raises:
        NotRelocatable: the records do not fit the source.
    """
    before, after = where.travels_as, where.own
    source, kernels = relocate.apply(graph.source_code, table, before, after)
    if source != graph.source_code:
        graph.source_code = source
        graph.cache_key = _name(source)
    graph.device_idxs = OrderedSet(after if index == before else index for index in graph.device_idxs)
    if graph._triton_bundle is not None:
        graph.set_triton_bundle(_placed(graph._triton_bundle, kernels, before, after))


def _name(source: str) -> str:
    """What Inductor calls the file of a generated source (``PyCodeCache.write``)."""
    return str(_codecache.get_hash(source.strip(), "", "code"))


def _placed(bundle: Any, kernels: Mapping[str, str], before: int, after: int) -> Any:
    """The bundle for device ``after``. ``kernels``: old source to new."""
    by_key = {CompiledTritonKernels.key(old): new for old, new in kernels.items()}
    return dataclasses.replace(
        bundle,
        kernel_artifacts=[
            dataclasses.replace(kernel, device=after if kernel.device == before else kernel.device)
            for kernel in bundle.kernel_artifacts
        ],
        static_autotuners=[
            _own(static, by_key[static.cache_key], before, after)
            for static in bundle.static_autotuners
            if static.cache_key in by_key
        ],
    )


def _own(static: Any, source: str, before: int, after: int) -> Any:
    kernel = static.kernel
    properties = kernel.device_props
    if properties.index == before:
        kernel.device_props = properties._replace(index=after)
    for meta in (kernel.triton_meta, *(result.compile_meta for result in kernel.compile_results)):
        if meta.get("device") == before:
            meta["device"] = after
    kernel.filename = _codecache.get_path(_name(source), "py")[2]
    # The worker's own cache of tuning results lies elsewhere.
    configurations = [result.config for result in kernel.compile_results]
    _, cache, kernel.autotune_cache_info = _heuristics.check_autotune_cache(
        configurations, kernel.filename, kernel.inductor_meta
    )
    kernel.save_cache_hook = cache.save if cache is not None else None
    return dataclasses.replace(static, cache_key=CompiledTritonKernels.key(source))
