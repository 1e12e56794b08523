"""Inductor's configuration as far as it concerns a graph that comes from AOTAutograd."""

import contextlib
from collections.abc import Generator
from typing import Any

from torch._inductor import config as _config


@contextlib.contextmanager
def of_graphs() -> Generator[None]:
    """Inside, what did its work before such a graph was made is not set: another job has the graph without it."""
    with _config.patch(pre_grad_custom_pass=None):
        yield


def portable() -> dict[str, Any]:
    """What PyTorch carries of it elsewhere, by name."""
    with of_graphs():
        found: dict[str, Any] = _config.save_config_portable(ignore_private_configs=False)
    return found
