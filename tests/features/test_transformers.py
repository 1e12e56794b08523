"""Models of ``transformers``, trained for some steps through the service: bitwise what plain Inductor gives, no fallback."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from support.daemon import DaemonProcess
from support.needs import needs_module
from support.training import Ended, Running, environment, python

pytestmark = [pytest.mark.features, pytest.mark.timeout(1800)]

MODELS = ["llama", "gpt2", "bert", "t5", "vit", "convnext", "resnet"]
STEPS = 3


@dataclasses.dataclass(frozen=True)
class Sides:
    """What each model gave on plain Inductor and through the service."""

    plain: dict[str, Any]
    through: dict[str, Any]
    rank: Ended


@pytest.fixture(scope="module", params=["static", "dynamic"])
def sides(
    request: pytest.FixtureRequest, real_daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory
) -> Sides:
    """Each side in a process and with caches of its own, side by side. What the C++ compiler prepares is prepared once for the
    plain ones, as the daemon does it for its workers."""
    needs_module("transformers")
    command = python("models.py", *(["--dynamic"] if request.param == "dynamic" else []), *MODELS)
    folder: Path = tmp_path_factory.mktemp(request.param)
    plain = Running(command, environment(tmp_path_factory.getbasetemp() / "models-plain", None))
    try:
        rank = Running(command, environment(folder / "through", real_daemon.address)).finish()
    finally:
        alone = plain.finish()
    return Sides(alone.result, rank.result, rank)


@pytest.mark.parametrize("model", MODELS)
def test_outputs_and_gradients_are_bitwise_those_of_inductor(sides: Sides, model: str) -> None:
    plain, through = sides.plain[model], sides.through[model]
    assert isinstance(through, list), through
    assert len(through) == STEPS
    assert all(math.isfinite(float.fromhex(step["loss"])) for step in through)
    assert len({step["loss"] for step in through}) == STEPS  # it learns something, so gradients were used
    assert through == plain


def test_no_graph_was_compiled_by_the_rank(sides: Sides) -> None:
    rank = sides.rank
    assert rank.fallbacks == {}, rank.err
    assert rank.count("requests") == rank.count("hits") + rank.count("joined") + rank.count("led")
    # Forward and backward of each.
    assert rank.count("requests") >= 2 * len(MODELS)
    assert len(rank.keys) == rank.count("requests")
