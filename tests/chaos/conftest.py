"""Fixtures for jobs that meet faults."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.jobs import Rank, Tiny
from support.training import python


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
