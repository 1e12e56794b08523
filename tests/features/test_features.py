"""Features of PyTorch through the service: bitwise what plain Inductor gives, compiled by the pool unless ``FALLS_BACK`` says
why not. ``docs/features.md`` has a row for each."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from support.daemon import DaemonProcess
from support.features import documented, names
from support.needs import needs_module
from support.training import NO_GRAPH_CACHE, Ended, Running, environment, python

pytestmark = [pytest.mark.features, pytest.mark.timeout(1800)]

# By feature, why each graph of it that falls back does.
FALLS_BACK = {
    "custom pass of the script": ["worker_cannot_load"],
    "custom pass without identity": ["not_cacheable"],
}


@dataclasses.dataclass(frozen=True)
class Sides:
    """What each feature gave on plain Inductor and through the service."""

    plain: dict[str, Any]
    through: dict[str, Any]
    rank: Ended


@pytest.fixture(scope="module")
def sides(real_daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Each side in one process, with caches of its own, side by side. Inductor's caches of graphs are off, since what is
    frozen differs between features that have one graph."""
    needs_module("torchao")
    command = python("features.py")
    folder: Path = tmp_path_factory.mktemp("features")
    plain = Running(command, environment(folder / "plain", None, **NO_GRAPH_CACHE))
    try:
        rank = Running(command, environment(folder / "through", real_daemon.address, **NO_GRAPH_CACHE)).finish()
    finally:
        alone = plain.finish()
    return Sides(alone.result, rank.result, rank)


@pytest.mark.parametrize("feature", names("features.py"))
def test_the_numbers_are_bitwise_those_of_inductor(sides: Sides, feature: str) -> None:
    plain, through = sides.plain[feature], sides.through[feature]
    assert "error" not in through, through["error"]
    assert through["digest"] == plain["digest"]
    assert [re.findall(r"\((\w+)\)$", said)[0] for said in through["said"]] == FALLS_BACK.get(feature, [])


def test_every_other_graph_came_from_the_pool(sides: Sides) -> None:
    rank = sides.rank
    expected = sorted(reason for reasons in FALLS_BACK.values() for reason in reasons)
    counted = sorted(reason for reason, count in rank.fallbacks.items() for _ in range(count))
    assert counted == expected, rank.err
    served = rank.count("hits") + rank.count("joined") + rank.count("led")
    # A graph that no worker can load was asked for, one without a key was not.
    assert rank.count("requests") == served + expected.count("worker_cannot_load")
    assert served >= len(names("features.py")) - len(FALLS_BACK)


def test_each_feature_has_its_row_in_the_docs() -> None:
    rows = documented("On one rank")
    assert [row.feature for row in rows] == names("features.py")
    assert {row.feature: row.reasons for row in rows if row.reasons} == FALLS_BACK
