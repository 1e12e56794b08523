"""The committed stubs are those of the committed protos and of the generator that the Makefile names."""

import sys
from pathlib import Path

import pytest
from support.installs import REPO, copy_tree, run
from support.needs import needs_program

pytestmark = pytest.mark.packaging


def stubs(tree: Path) -> dict[str, str]:
    """Text of each generated file."""
    return {path.name: path.read_text() for path in (tree / "src/inductord/v1").glob("*_pb2*")}


def test_the_stubs_are_up_to_date(tmp_path: Path) -> None:
    needs_program("make", "make")
    tree = copy_tree(tmp_path / "inductord")
    committed = stubs(tree)
    run(["make", "protos", f"PYTHON={sys.executable}"], cwd=tree)
    assert set(committed) == set(stubs(tree))
    stale = [name for name, text in stubs(tree).items() if text != committed[name]]
    assert not stale, "run `make protos` and commit what it changes"


def test_the_protos_have_a_stub_each() -> None:
    protos = {path.stem for path in (REPO / "protos/inductord/v1").glob("*.proto")}
    assert set(stubs(REPO)) == {f"{proto}_pb2{ending}" for proto in protos for ending in (".py", ".pyi", "_grpc.py")}
