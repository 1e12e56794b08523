"""Fixtures for tests of whole ranks."""

import pytest
from support.training import Plain


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """What commands give on plain Inductor."""
    return Plain(tmp_path_factory.mktemp("plain"))
