"""The rank's side: a compiled graph from its bytes, as something that runs.

Everything after unpickling is PyTorch's own path for a hit in its local cache: kernels are put in place, the wrapper module
is loaded, metrics and counters move as if the graph had been compiled here, logs and traces are written.
"""

import pickle
import threading
from typing import Any

from torch._inductor import codecache as _codecache
from torch._inductor import output_code as _output_code

from inductord.compiler.adapter import graph_metrics, kernels, moving, shared_objects, tracing
from inductord.compiler.adapter.placement import Placement
from inductord.compiler.adapter.seam import GraphCall
from inductord.compiler.payload import Artifact

# PyTorch's tables of loaded modules are not made for two threads (pytorch/pytorch#192368).
_install_lock = threading.Lock()


class GuardsFailed(Exception):
    """The artifact was made under assumptions about sizes that do not hold here."""


class NotInstallable(Exception):
    """The artifact cannot be loaded in this process. The message says why."""


def load(artifact: Artifact, call: GraphCall, where: Placement) -> Any:
    """A compiled graph ready for Inductor's ``post_compile``, with its guards taken over, on this rank's own device.

    Args:
        artifact: what the daemon gave. Unpickling runs code: only from a daemon that this user trusts.
        call: the graph that it was compiled for.
        where: the graph's placement in this process.

    Raises:
        GuardsFailed: sizes do not fit.
        NotInstallable: it does not load.
    """
    with _install_lock:
        try:
            graph = pickle.loads(artifact.content)
        except Exception as error:
            raise NotInstallable(f"cannot unpickle the compiled graph: {type(error).__name__}: {error}") from error
        if not isinstance(graph, _output_code.CompiledFxGraph):
            raise NotInstallable(f"the artifact holds a {type(graph).__name__}")
        try:
            fits = tracing.take_over_guards(graph.guards_expr, call.example_inputs)
        except Exception as error:
            raise GuardsFailed(f"{graph.guards_expr} cannot be evaluated: {type(error).__name__}: {error}") from error
        if not fits:
            raise GuardsFailed(str(graph.guards_expr))
        try:
            if artifact.relocations is not None:
                moving.to_own_device(graph, artifact.relocations, where)
            kernels.collect_delivered(graph._triton_bundle)
            constants = _output_code.CompiledFxGraphConstantsWithGm(call.gm)
            with shared_objects.supplying(artifact.libraries):
                loaded, _ = _codecache.FxGraphCache.cache_hit_post_compile(graph, {}, constants)
        except Exception as error:
            raise NotInstallable(f"cannot load the compiled graph: {type(error).__name__}: {error}") from error
        if loaded is None:
            raise NotInstallable("the wrapper module cannot be written or read")
        graph_metrics.count(graph)
        return loaded
