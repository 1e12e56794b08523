"""PyTorch's own remote caches (torch/_inductor/remote_cache.py), answered by somebody else than Redis.

PyTorch asks them for results of AOTAutograd, for Dynamo's profile and for what autotuning chose, each where its own setting
says so. That for AOTAutograd is turned on here.
"""

import base64
import dataclasses
import json
import os
import pickle
from typing import Any, Protocol

import torch
from torch._functorch import aot_autograd as _aot_autograd
from torch._functorch import config as _functorch_config
from torch._functorch._aot_autograd import autograd_cache as _autograd_cache
from torch._functorch._aot_autograd import graph_compile as _graph_compile
from torch._inductor import codecache as _codecache
from torch._inductor import remote_cache as _remote_cache

from inductord.compiler.adapter import moving, shared_objects
from inductord.compiler.adapter.placement import Placement
from inductord.compiler.payload import Artifact

_REDIS = ("TORCHINDUCTOR_REDIS_URL", "TORCHINDUCTOR_REDIS_HOST")


class Values(Protocol):
    """Who answers. Neither call raises: what cannot be had is absent."""

    def get(self, cache: str, key: str) -> bytes | None: ...
    def put(self, cache: str, key: str, value: bytes) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A compiled graph that a result of AOTAutograd names: PyTorch's key, and the guards that it is looked up with."""

    fx_key: str
    guards: str | None


def asked() -> bool:
    """Whether results of AOTAutograd are to be kept remotely, by the settings of the job."""
    # Changing the setting itself would change the keys of PyTorch's local cache: they are made of all settings.
    if _functorch_config.enable_remote_autograd_cache is None and not torch.compiler.config.force_disable_caches:
        return bool(_functorch_config.enable_autograd_cache)
    return bool(_autograd_cache.should_use_remote_autograd_cache())


def install(values: Values) -> bool:
    """Answer PyTorch's remote caches from ``values``, once per process. False: the job has a Redis of its own, and keeps it."""
    if any(os.environ.get(name) for name in _REDIS):
        return False

    class Backend(_remote_cache.RemoteCacheBackend[bytes]):
        def __init__(self, cache_id: str) -> None:
            super().__init__()
            self._cache = cache_id

        def _get(self, key: str) -> bytes | None:
            return values.get(self._cache, key)

        def _put(self, key: str, data: bytes) -> None:
            values.put(self._cache, key, data)

    _remote_cache.RedisRemoteCacheBackend = Backend
    for module in (_aot_autograd, _graph_compile):
        module.should_use_remote_autograd_cache = asked
    return True


def named_graphs(value: bytes) -> list[Named] | None:
    """The compiled graphs of a result that this process is about to keep; None when it holds them itself.

    Raises:
        Whatever unpickling raises. The bytes are this process' own.
    """
    entry = pickle.loads(base64.b64decode(json.loads(value)["data"]))
    graphs = [graph for graph in (entry.compiled_fw, entry.compiled_bw) if graph is not None]
    if not all(hasattr(graph, "fx_graph_cache_info") for graph in graphs):
        return None
    return [Named(graph.fx_graph_cache_info[0], graph.fx_graph_guard_expr) for graph in graphs]


def fx_key(compiled: Any) -> str | None:
    """PyTorch's key of a compiled graph, once it gave it one."""
    key: str | None = getattr(compiled, "_fx_graph_cache_key", None)
    return key


def has_graph(named: Named) -> bool:
    """Whether PyTorch's local cache has a graph under this key."""
    folder = _codecache.FxGraphCache._get_tmp_dir_for_key(named.fx_key)
    return os.path.isdir(folder) and any(not name.startswith(".") for name in os.listdir(folder))


def add_graph(named: Named, artifact: Artifact, where: Placement) -> None:
    """Put a compiled graph into PyTorch's local cache and its libraries beside it, as if it had been compiled here.

    Raises:
        OSError: the cache folder cannot be written.
        NotRelocatable: its relocation records do not fit its source.
        Whatever unpickling raises: only artifacts of a daemon that this user trusts.
    """
    graph, content = pickle.loads(artifact.content), artifact.content
    if artifact.relocations is not None:
        moving.to_own_device(graph, artifact.relocations, where)
    if artifact.relocations is not None or graph.guards_expr != named.guards:
        # A worker states the same guards in other words; PyTorch compares the words.
        graph.guards_expr = named.guards
        content = pickle.dumps(graph)
    shared_objects.keep(artifact.libraries)
    _codecache.FxGraphCache._write_to_local_cache(named.fx_key, content)
