"""Kernel libraries as files: whole or not there, the first one stays, nothing outside the folder."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from inductord.compiler.payload import Library
from inductord.compiler.shelf import Shelf

pytestmark = pytest.mark.unit

DIGEST = "d1" * 32
CONTENT = b"\x7fELF library"


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() or path.is_symlink()}


def test_what_was_put_is_found(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    assert shelf.find(DIGEST) is None
    path = shelf.put(DIGEST, Library(CONTENT, ""))
    assert path.name == f"{hashlib.sha256(CONTENT).hexdigest()}.so"
    assert path.read_bytes() == CONTENT
    assert Shelf(tmp_path).find(DIGEST) == path
    assert shelf.find("d2" * 32) is None


def test_the_folder_may_move(tmp_path: Path) -> None:
    Shelf(tmp_path / "one").put(DIGEST, Library(CONTENT, ""))
    (tmp_path / "one").rename(tmp_path / "two")
    found = Shelf(tmp_path / "two").find(DIGEST)
    assert found is not None
    assert found.read_bytes() == CONTENT


def test_equal_libraries_are_one_file(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    first = shelf.put(DIGEST, Library(CONTENT, ""))
    inode = first.stat().st_ino
    second = shelf.put("d2" * 32, Library(CONTENT, ""))
    assert (second, second.stat().st_ino) == (first, inode)


def test_for_one_source_the_first_library_stays(tmp_path: Path) -> None:
    # Ranks that run already have mapped it.
    shelf = Shelf(tmp_path)
    first = shelf.put(DIGEST, Library(CONTENT, ""))
    other = shelf.put(DIGEST, Library(b"built again", ""))
    assert other.read_bytes() == b"built again"
    assert shelf.find(DIGEST) == first


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    path = shelf.put(DIGEST, Library(CONTENT, ""))
    for damaged in (CONTENT[:-1], CONTENT[:-1] + b"X", b""):
        path.write_bytes(damaged)
        assert shelf.put(DIGEST, Library(CONTENT, "")).read_bytes() == CONTENT


def test_a_link_to_nothing_is_a_miss_and_then_mended(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put(DIGEST, Library(CONTENT, "")).unlink()
    assert shelf.find(DIGEST) is None
    shelf.put(DIGEST, Library(CONTENT, ""))
    assert shelf.find(DIGEST) is not None


def test_the_library_also_stands_where_inductor_would_have_built_it(tmp_path: Path) -> None:
    path = Shelf(tmp_path).put(DIGEST, Library(CONTENT, "cx/cxyz.main.so"))
    assert (tmp_path / "cx" / "cxyz.main.so").samefile(path)


def test_what_inductor_built_itself_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "cx" / "cxyz.so"
    own.parent.mkdir()
    own.write_bytes(b"built here")
    Shelf(tmp_path).put(DIGEST, Library(CONTENT, "cx/cxyz.so"))
    assert own.read_bytes() == b"built here"


@pytest.mark.parametrize("hostile", ["../outside.so", "a/../../outside.so", "..", "/{outside}/outside.so"])
def test_a_path_out_of_the_cache_is_not_followed(tmp_path: Path, hostile: str) -> None:
    cache = tmp_path / "cache"
    path = Shelf(cache).put(DIGEST, Library(CONTENT, hostile.format(outside=tmp_path)))
    assert path.read_bytes() == CONTENT
    assert not (tmp_path / "outside.so").exists()
    assert {name.split("/")[0] for name in files(cache)} == {"inductord"}


def test_a_place_that_cannot_be_written_costs_the_link_alone(tmp_path: Path) -> None:
    (tmp_path / "cx").write_text("a file where a folder should be")
    shelf = Shelf(tmp_path)
    assert shelf.put(DIGEST, Library(CONTENT, "cx/cxyz.so")) == shelf.find(DIGEST)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "inductord").write_text("a file where the folder should be")
    with pytest.raises(OSError):
        Shelf(tmp_path).put(DIGEST, Library(CONTENT, ""))


_PUT_MANY = """
import hashlib, sys
from pathlib import Path
from inductord.compiler.payload import Library
from inductord.compiler.shelf import Shelf
shelf = Shelf(Path(sys.argv[1]))
for _ in range(20):
    for number in range(10):
        content = bytes([number]) * 200_000
        path = shelf.put(f"{number:064x}", Library(content, f"cx/{number}.so"))
        assert path.read_bytes() == content
        found = shelf.find(f"{number:064x}")
        assert found is not None and found.read_bytes() == content
"""


def test_processes_that_put_the_same_libraries_at_once(tmp_path: Path) -> None:
    ranks = [subprocess.Popen([sys.executable, "-c", _PUT_MANY, str(tmp_path)]) for _ in range(4)]
    assert [rank.wait(120) for rank in ranks] == [0] * 4
    assert {path.name: path.read_bytes()[0] for path in (tmp_path / "cx").iterdir()} == {
        f"{number}.so": number for number in range(10)
    }
    assert not [name for name in files(tmp_path) if name.endswith(".tmp")]
