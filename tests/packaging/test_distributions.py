"""What is in the wheel and in the sdist, and what they say of themselves."""

import email.message
import email.parser
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement

import inductord

pytestmark = pytest.mark.packaging
PACKAGES = ("compiler", "daemon", "worker")
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


def modules(source: Path) -> set[str]:
    """Every file of the import package, by its path in a wheel."""
    package = source / "src" / "inductord"
    own = {path.relative_to(package.parent) for path in package.glob("*.py")}
    stubs = {path.relative_to(package.parent) for path in (package / "v1").iterdir() if path.suffix in (".py", ".pyi")}
    linked = {
        Path("inductord", path.relative_to(source)) for folder in PACKAGES for path in (source / folder).rglob("*.py")
    }
    report = Path("daemon", "report", "templates")
    templates = {Path("inductord", path.relative_to(source)) for path in (source / report).iterdir()}
    return {path.as_posix() for path in own | stubs | linked | templates} | {"inductord/py.typed"}


def metadata(wheel: Path) -> email.message.Message:
    """Of the wheel, as installers read it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_every_module_and_nothing_else(source: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not PurePosixPath(name).parts[0].endswith(".dist-info")}
    assert names == modules(source)
    protos = {path.stem for path in (source / "protos/inductord/v1").glob("*.proto")}
    assert {f"inductord/v1/{proto}{ending}" for proto in protos for ending in GENERATED} <= names


def test_the_wheel_carries_the_licence_and_fits_every_platform(source: Path, wheel: Path) -> None:
    assert wheel.name == f"inductord-{inductord.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if PurePosixPath(name).name == "LICENSE")
        assert archive.read(name) == (source / "LICENSE").read_bytes()
    assert "Apache License" in (source / "LICENSE").read_text()
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"


def test_the_wheel_states_what_a_rank_needs(source: Path, wheel: Path, project: dict[str, Any]) -> None:
    described = metadata(wheel)
    assert described["Version"] == inductord.__version__
    assert described["Requires-Python"] == project["requires-python"]
    stated = described.get_all("Requires-Dist") or []
    base = {requirement.name for requirement in map(Requirement, stated) if requirement.marker is None}
    assert base == {"torch", "grpcio", "protobuf"}
    assert set(described.get_all("Provides-Extra") or []) == {"daemon", "otel", "ray", "shared", "dev"}
    readme = (source / project["readme"]).read_text()
    assert str(described.get_payload()).strip() == readme.strip()


def test_the_sdist_can_be_built_and_tested(source: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {
            PurePosixPath(*PurePosixPath(member.name).parts[1:]).as_posix() for member in archive if member.isfile()
        }
    assert {f"src/{name}" for name in modules(source)} <= names
    for folder in ("protos", "tests", "benchmarks", "dashboards", "demo", "docs"):
        ours = {path.relative_to(source).as_posix() for path in (source / folder).rglob("*") if path.is_file()}
        ours = {name for name in ours if "__pycache__" not in name}
        assert ours, folder
        assert ours <= names, folder
    assert {"pyproject.toml", "requirements.lock", "Makefile", "LICENSE", "README.md"} <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
