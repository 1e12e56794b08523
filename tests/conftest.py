"""Fixtures for all tests."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from support.compiler import remember_compiles
from support.daemon import DaemonProcess, running_daemon, share_prepared
from support.jobs import Tiny, recorded_once
from support.leaks import left_behind, set_mark

# How long drawing and trying take is the machine's doing.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

DEAREST_FIRST = ("gpu", "features", "cluster", "chaos", "integration", "k8s", "packaging", "codegen", "wire", "unit")
"""Kinds of tests, by marker. pytest-xdist hands out files in this order: what is left for the end is short, so that all
processes end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files by their dearest kind; the tests of a file stay as they are."""
    place: dict[Path, int] = {}
    for item in items:
        kinds = [DEAREST_FIRST.index(mark.name) for mark in item.iter_markers() if mark.name in DEAREST_FIRST]
        place[item.path] = min([*kinds, place.get(item.path, len(DEAREST_FIRST))])
    items.sort(key=lambda item: place[item.path])


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """After the last test, and after all other fixtures, nothing that they started runs on."""
    mark = set_mark()
    yield
    assert left_behind(mark) == []


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of pytest-xdist have together."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session", autouse=True)
def compiled_once(session_folder: Path) -> None:
    """What real workers prepare, and what the C++ compiler makes, is made once in a session."""
    folder = session_folder / "prepared"
    folder.mkdir(exist_ok=True)
    share_prepared(folder)
    remember_compiles(session_folder / "cxx")


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


@pytest.fixture(scope="session")
def real_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """One daemon with one real worker for all tests that compile: a worker is dear to start. Tests look at what their own
    requests changed, and use graphs that no other test has."""
    settings = {"worker_command": f"{sys.executable} -m inductord.worker", "max_workers": 1, "heartbeat_seconds": 2}
    patience = {"idle_seconds": 1800, "idle_exit_seconds": 1800}
    with running_daemon(tmp_path_factory.mktemp("real"), **settings, **patience) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def tiny(request: pytest.FixtureRequest, session_folder: Path) -> Tiny:
    """What is right for the job of ``tests/jobs/tiny.py``, on which faults are tried. The first process that asks finds it out;
    no other needs a real worker for it."""
    return recorded_once(session_folder / "tiny", lambda: request.getfixturevalue("real_daemon"))
