"""Fixtures for jobs that meet faults."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.jobs import Rank, Tiny, record
from support.training import python


@pytest.fixture(scope="session")
def tiny(real_daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """What is right for the job."""
    return record(tmp_path_factory.mktemp("tiny"), real_daemon)


@pytest.fixture
def start_rank(tiny: Tiny, tmp_path: Path) -> Iterator[Callable[..., Rank]]:
    """Starts ranks of the job, numbered as they come; each has ended after the test."""
    with contextlib.ExitStack() as stack:
        count = 0

        def start(
            address: str, world_size: int = 1, command: Sequence[str] = tuple(python("tiny.py")), **more: str
        ) -> Rank:
            nonlocal count
            folder = tmp_path / f"rank{count}"
            rank = Rank(tiny, folder, address, count % world_size, world_size, command, **more)
            stack.callback(rank.close)
            count += 1
            return rank

        yield start
