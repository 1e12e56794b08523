"""The models of ``tests/jobs/models.py``, trained on plain Inductor and through the service, and what must hold of the two.

Static and symbolic shapes are tested in files of their own, so that they can be tried at the same time.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

from support.daemon import DaemonProcess
from support.needs import needs_module
from support.training import Ended, Running, environment, python

MODELS = ["llama", "gpt2", "bert", "t5", "vit", "convnext", "resnet"]
STEPS = 3


@dataclasses.dataclass(frozen=True)
class Sides:
    """What each model gave on plain Inductor and through the service."""

    plain: dict[str, Any]
    through: dict[str, Any]
    rank: Ended

    @classmethod
    def train(cls, folder: Path, daemon: DaemonProcess, *options: str) -> "Sides":
        """Each side in a process and with caches of its own, side by side. ``options``: of the script."""
        needs_module("transformers")
        command = python("models.py", *options, *MODELS)
        plain = Running(command, environment(folder / "plain", None))
        try:
            rank = Running(command, environment(folder / "through", daemon.address)).finish()
        finally:
            alone = plain.finish()
        return cls(alone.result, rank.result, rank)

    def check_numbers(self, model: str) -> None:
        """The service changed no bit, and the model did learn."""
        plain, through = self.plain[model], self.through[model]
        assert isinstance(through, list), through
        assert len(through) == STEPS
        assert all(math.isfinite(float.fromhex(step["loss"])) for step in through)
        assert len({step["loss"] for step in through}) == STEPS  # it learns something, so gradients were used
        assert through == plain

    def check_served(self) -> None:
        """The rank compiled nothing by itself, and asked for forward and backward of each model."""
        rank = self.rank
        assert rank.fallbacks == {}, rank.err
        assert rank.count("requests") == rank.count("hits") + rank.count("joined") + rank.count("led")
        assert rank.count("requests") >= 2 * len(MODELS)
        assert len(rank.keys) == rank.count("requests")
