"""Fixtures for tests of whole ranks and of the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import Cli
from support.training import Plain


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    """What commands give on plain Inductor."""
    plain = Plain(tmp_path_factory.mktemp("plain"))
    yield plain
    plain.close()


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """The command line; a daemon that it started is ended."""
    cli = Cli(tmp_path)
    yield cli
    cli.end_daemon()
