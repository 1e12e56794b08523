"""Fixtures for tests of whole ranks."""

from collections.abc import Iterator

import pytest
from support.training import Plain


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    """What commands give on plain Inductor."""
    plain = Plain(tmp_path_factory.mktemp("plain"))
    yield plain
    plain.close()
