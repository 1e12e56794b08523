"""What the files of the project may say: the lock fits what is required, and nothing leads out of the tree."""

import ipaddress
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.installs import REPO, locked
from support.needs import needs, needs_program

pytestmark = pytest.mark.packaging

# Top folders that every Linux machine may have. Any other is one of somebody's own machine.
ROOTS = frozenset("bin data dev etc home lib mnt opt proc root run shm srv sys tmp usr var".split())  # noqa: SIM905
# Places in objects of Kubernetes, as patches name them.
POINTERS = frozenset({"metadata", "spec"})
# `/a/b`, not preceded by what makes it the middle of something longer, such as a URL or a relative path.
ABSOLUTE = re.compile(r"""(?<![\w./:$})*\]<>~+-])/(?P<root>[a-z]+)/[\w.-]""")
URL = re.compile(r"https?://(?P<host>[A-Za-z0-9.-]+)")
# Ends of names that only somebody's own network knows.
PRIVATE = ("corp", "home", "internal", "intranet", "lan", "local")


def texts() -> Iterator[tuple[Path, str]]:
    """Each file that git tracks, or would, except symlinks and pictures."""
    needs_program("git", "git")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=REPO, capture_output=True, text=True, check=False)
    needs(done.returncode == 0, "a git checkout, which says what files are the project's")
    for name in filter(None, done.stdout.split("\0")):
        path = REPO / name
        if path.is_file() and not path.is_symlink() and path.suffix != ".png":
            yield path, path.read_text()


def test_no_file_names_a_path_of_one_machine() -> None:
    found = {
        f"{path.relative_to(REPO)}: {match.group()}"
        for path, text in texts()
        for match in ABSOLUTE.finditer(text)
        if match["root"] not in ROOTS | POINTERS and not path.is_relative_to(REPO / "tests")  # they make paths up
    }
    assert not found


def test_no_file_has_the_marks_of_a_merge() -> None:
    marks = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    assert [str(path.relative_to(REPO)) for path, text in texts() if marks.search(text)] == []


def test_no_file_points_out_of_the_tree() -> None:
    found = []
    for path, text in texts():
        for target in re.findall(r"""(?<![\w./])(?:\.\./)+[\w][\w./-]*""", text):
            if not Path(os.path.normpath(path.parent / target)).is_relative_to(REPO):
                found.append(f"{path.relative_to(REPO)}: {target}")
    assert not found


def private(host: str) -> bool:
    """Whether a reader elsewhere could not reach it; this machine itself is everywhere."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rpartition(".")[2] in PRIVATE
    return not (address.is_loopback or address.is_unspecified)


def test_links_lead_to_public_places() -> None:
    found = {
        f"{path.relative_to(REPO)}: {match['host']}"
        for path, text in texts()
        for match in URL.finditer(text)
        if private(match["host"])
    }
    assert not found


def test_the_lock_meets_every_requirement(project: dict[str, Any]) -> None:
    pins = locked()
    stated = [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
    ]
    for requirement in map(Requirement, stated):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_the_lock_names_no_source_and_no_build() -> None:
    for name, version in locked().items():
        assert re.fullmatch(r"[\w.]+", version), f"{name}=={version}"
