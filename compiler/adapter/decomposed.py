"""Decompositions of operators that a job has put in the place of Inductor's own or beside them.

Inductor's tables are compared with what they held when they had just been made: the hook has this module imported then. PyTorch
itself adds nothing later.
"""

from typing import Any

from torch._inductor import decomposition as _decomposition

_TABLES: tuple[dict[Any, Any], ...] = (_decomposition.decompositions, _decomposition.extra_random_decomps)
_BEFORE = tuple(map(dict, _TABLES))


def found() -> list[Any]:
    """The operators that the job decomposes in its own way, or not at all."""
    return [target for before, now in zip(_BEFORE, _TABLES, strict=True) for target in _changed(before, now)]


def _changed(before: dict[Any, Any], now: dict[Any, Any]) -> list[Any]:
    if before == now:
        return []
    return [target for target in before.keys() | now.keys() if before.get(target) is not now.get(target)]
