"""What is built and installed once for all packaging tests."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.installs import REPO, RUNNER, Environment, copy_tree, floors, locked, run
from support.needs import needs_module

Project = dict[str, Any]


@pytest.fixture(scope="session")
def project() -> Project:
    """The table ``project`` of pyproject.toml."""
    with (REPO / "pyproject.toml").open("rb") as file:
        table: Project = tomllib.load(file)["project"]
    return table


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, to build from and to compare with."""
    return copy_tree(tmp_path_factory.mktemp("source") / "inductord")


@pytest.fixture(scope="session")
def distributions(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist and with the wheel that was built from the sdist."""
    needs_module("build")
    target = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source)], cwd=target)
    return target


@pytest.fixture(scope="session")
def sdist(distributions: Path) -> Path:
    """The source distribution."""
    (path,) = distributions.glob("*.tar.gz")
    return path


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    """The wheel."""
    (path,) = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel, not the checkout, with the locked packages around it."""
    environment = Environment(tmp_path_factory.mktemp("installed") / "venv", outer=True)
    environment.install("--no-deps", "--no-index", str(wheel))
    return environment


@pytest.fixture(scope="session")
def rank_floor(wheel: Path, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with the oldest gRPC and protobuf that a rank may have. Nothing else, not even torch: it is large."""
    environment = Environment(tmp_path_factory.mktemp("rank-floor") / "venv")
    environment.install(*(pin for pin in floors(project["dependencies"]) if not pin.startswith("torch==")))
    environment.install("--no-deps", "--no-index", str(wheel))
    return environment


@pytest.fixture(scope="session")
def daemon_floor(
    wheel: Path, project: Project, rank_floor: Environment, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """The wheel with the oldest of everything that a daemon needs, and a test runner."""
    environment = Environment(tmp_path_factory.mktemp("daemon-floor") / "venv")
    pins = floors(project["dependencies"]) + floors(project["optional-dependencies"]["daemon"])
    versions = locked()
    runner = [f"{name}=={versions[name]}" for name in RUNNER if not any(pin.startswith(f"{name}==") for pin in pins)]
    environment.install(*(pin for pin in pins if not pin.startswith("torch==")), *runner)
    environment.install("--no-deps", "--no-index", str(wheel))
    return environment
