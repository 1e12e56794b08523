"""Fixtures for all tests."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.daemon import DaemonProcess, running_daemon


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """Starts daemons with the settings given; each is ended after the test and must leave nothing behind."""
    with contextlib.ExitStack() as stack:
        count = 0

        def start(**settings: object) -> DaemonProcess:
            nonlocal count
            count += 1
            return stack.enter_context(running_daemon(tmp_path / f"daemon{count}", **settings))  # type: ignore[arg-type]

        yield start


@pytest.fixture
def daemon(start_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    """One daemon with scripted workers."""
    return start_daemon()
