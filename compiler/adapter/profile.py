"""Dynamo's profile of which sizes change, in PyTorch's remote cache (torch/_dynamo/pgo.py).

It is read while Dynamo traces the first frame, when Inductor is not yet imported and nobody has taken over the remote caches.
"""

from collections.abc import Callable
from types import ModuleType


def before_it_is_read(pgo: ModuleType, do: Callable[[], object]) -> None:
    """Call ``do`` once, before the profile is first looked for in a remote cache, if it ever is."""
    ask = getattr(pgo, "get_remote_cache", None)
    if ask is None:  # a PyTorch that this release was not made for; routing says so
        return

    def get_remote_cache() -> object:
        if pgo.should_use_remote_dynamo_pgo_cache():
            pgo.get_remote_cache = ask  # type: ignore[attr-defined]
            do()
        return ask()

    pgo.get_remote_cache = get_remote_cache  # type: ignore[attr-defined]
