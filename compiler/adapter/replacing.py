"""Something of PyTorch replaced for a while: questions about a device, or the rest of a job, that only a rank can answer."""

import contextlib
import importlib
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def replaced(target: str, stand_in: Any) -> Generator[None]:
    """Inside, ``stand_in`` is found at ``target``, a dotted name; what this version of PyTorch does not have stays absent."""
    owner, name = _resolve(target)
    if not hasattr(owner, name):
        yield
        return
    before = vars(owner).get(name, _ABSENT)
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


_ABSENT = object()


def _resolve(target: str) -> tuple[Any, str]:
    path, name = target.rsplit(".", 1)
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            owner = getattr(owner, part)
        return owner, name
    raise ModuleNotFoundError(path)
