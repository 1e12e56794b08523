"""Ways of parallelism through the service, two ranks over gloo: bitwise what plain Inductor gives, no fallback but that of
``FALLS_BACK``; ranks share where their graphs are equal and only there."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from support.daemon import DaemonProcess
from support.features import documented, names
from support.training import NO_GRAPH_CACHE, Ended, Running, environment, torchrun

pytestmark = [pytest.mark.features, pytest.mark.timeout(1800)]

RANKS = 2
# By way, why one graph of it falls back on each rank: asked for its rank, PyTorch fails in a worker, which is in no group.
FALLS_BACK = {"collectives in buckets": ["compile_failed"]}


@dataclasses.dataclass(frozen=True)
class Sides:
    """What each way gave, by rank, on plain Inductor and through the service."""

    plain: dict[str, list[Any]]
    through: dict[str, list[Any]]
    job: Ended


@pytest.fixture(scope="module")
def sides(real_daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    """Each side as one job of two ranks, with caches of its own, side by side. Through the service each rank asks for each of
    its graphs: none is found in the cache of the job, where the other rank's may be by then."""
    command = torchrun(RANKS, "parallel.py")
    folder: Path = tmp_path_factory.mktemp("parallel")
    plain = Running(command, environment(folder / "plain", None))
    try:
        job = Running(command, environment(folder / "through", real_daemon.address, **NO_GRAPH_CACHE)).finish()
    finally:
        alone = plain.finish()
    return Sides(alone.result, job.result, job)


@pytest.mark.parametrize("way", names("parallel.py"))
def test_the_numbers_are_bitwise_those_of_inductor(sides: Sides, way: str) -> None:
    for plain, through in zip(sides.plain[way], sides.through[way], strict=True):
        assert "error" not in through, through["error"]
        assert through["digest"] == plain["digest"]
        assert [re.findall(r"\((\w+)\)$", said)[0] for said in through["said"]] == FALLS_BACK.get(way, [])


def test_every_other_graph_came_from_the_pool_and_each_key_was_compiled_once(sides: Sides) -> None:
    job = sides.job
    assert job.fallbacks == {"compile_failed": RANKS}, job.err
    assert job.count("requests") == job.count("hits") + job.count("joined") + job.count("led") + RANKS
    assert job.count("led") == len(job.keys) - 1


def test_ranks_share_equal_graphs_and_only_those(sides: Sides) -> None:
    first, second = (set(report["keys"]) for report in sides.job.reports)
    assert len(first) > len(first & second) > 0
    # Graphs that differ: the rank's own part of an embedding, of unequal exchanges, and the name of its own group.
    assert len(first - second) == len(second - first) >= 3


def test_each_way_has_its_row_in_the_docs() -> None:
    rows = documented("Over several ranks")
    assert [row.feature for row in rows] == names("parallel.py")
    assert {row.feature: row.reasons for row in rows if row.reasons} == FALLS_BACK
