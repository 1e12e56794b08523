"""Copies of the project's tree, what is built from them, and environments to install that into."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.needs import needs

REPO = Path(__file__).parent.parent.parent
# Of the floor environment's test runner, which has no floor of its own.
RUNNER = ("hypothesis", "packaging", "pytest", "pytest-asyncio", "pytest-timeout")
_NOT_SOURCE = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)


def copy_tree(target: Path) -> Path:
    """The tree as a fresh clone has it, symlinks included: builds write beside their sources."""
    shutil.copytree(REPO, target, symlinks=True, ignore=_NOT_SOURCE)
    return target


def outer_environment() -> dict[str, str]:
    """This process's environment without what changes imports or settings of ours."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV") and not name.startswith("INDUCTORD")
    }


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path, code: int = 0) -> str:
    """Output and errors of a command, which must end with ``code``. ``env``: what is set beside the outer environment."""
    done = subprocess.run(
        command,
        env=outer_environment() | dict(env or {}),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


class Environment:
    """A venv. Without ``outer``, it has nothing but what is installed into it.

    ``outer``: it also finds the packages of the environment that runs this test, after its own. Not an editable install
    of this project there, for which Python reads path files, which it does in its own folder only.
    """

    def __init__(self, folder: Path, *, outer: bool = False) -> None:
        self.folder = folder
        # The outer pip installs into it: a venv's own takes seconds to come, and brings an old setuptools with it.
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = folder / "bin" / "python"
        self.packages = Path(self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        if outer:
            (self.packages / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(self, *args: str) -> None:
        """``pip install``. A registry that cannot be reached is a missing part of the machine; all else is a failure."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check"]
        done = subprocess.run([*pip, "install", "--quiet", *args], capture_output=True, text=True, check=False)
        needs(
            done.returncode == 0 or "connection broken by" not in done.stderr, "a package registry that pip can reach"
        )
        assert done.returncode == 0, done.stderr

    def run(self, *args: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        """What the interpreter prints when run with ``args``, from a folder without sources unless told otherwise."""
        return run([str(self.python), *args], env=env, cwd=cwd or self.folder)

    def script(self, *command: str, env: Mapping[str, str] | None = None, code: int = 0) -> str:
        """What an installed script prints; it must end with ``code``."""
        return run([str(self.folder / "bin" / command[0]), *command[1:]], env=env, cwd=self.folder, code=code)

    def home_of(self, package: str) -> Path:
        """Folder that an import of ``package`` takes it from."""
        return Path(self.run("-c", f"import {package}; print({package}.__path__[0])").strip())


def floors(requirements: Sequence[str]) -> list[str]:
    """Each requirement that states a least version, pinned to it."""
    pins = []
    for text in requirements:
        requirement = Requirement(text)
        least = [spec.version for spec in requirement.specifier if spec.operator == ">="]
        if least:
            pins.append(f"{requirement.name}=={least[0]}")
    return pins


def locked() -> dict[str, str]:
    """Version by canonical name, as ``requirements.lock`` has them."""
    lines = (REPO / "requirements.lock").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}
