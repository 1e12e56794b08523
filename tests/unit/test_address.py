"""The default address: private, the same for all processes of a user, and never somebody else's."""

import os
from pathlib import Path

import pytest

from inductord.compiler.address import (
    AddressError,
    check_private_dir,
    configured_address,
    default_address,
    ensure_private_dir,
    socket_path,
)

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Temporary files in the test's own folder, no runtime folder, no configured address."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("INDUCTORD_ADDRESS", raising=False)
    return tmp_path


def test_the_runtime_folder_is_preferred(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    runtime = places / "run"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert default_address() == f"unix:{runtime}/inductord/inductord.sock"


@pytest.mark.parametrize("runtime", ["/absent/folder", "relative", ""])
def test_an_unusable_runtime_folder_is_passed_over(monkeypatch: pytest.MonkeyPatch, places: Path, runtime: str) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    assert default_address() == f"unix:{places}/inductord-{os.geteuid()}/inductord.sock"


def test_a_runtime_folder_of_another_user_is_passed_over(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    runtime = places / "run"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr("os.geteuid", lambda: runtime.stat().st_uid + 1)
    assert str(runtime) not in default_address()


def test_looking_makes_nothing(places: Path) -> None:
    default_address()
    assert list(places.iterdir()) == []


def test_a_link_in_place_of_the_folder_is_refused(places: Path) -> None:
    (places / "elsewhere").mkdir(mode=0o700)
    (places / f"inductord-{os.geteuid()}").symlink_to(places / "elsewhere")
    with pytest.raises(AddressError, match="link"):
        default_address()


def test_a_folder_that_is_open_to_others_is_refused_with_its_mend(places: Path) -> None:
    folder = places / f"inductord-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(AddressError, match="chmod 700"):
        default_address()


def test_a_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    folder = places / "folder"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(AddressError, match="belongs to user"):
        check_private_dir(folder)


def test_a_private_folder_is_made_for_us_alone(places: Path) -> None:
    before = os.umask(0o022)
    try:
        ensure_private_dir(places / "a" / "b")
    finally:
        os.umask(before)
    # The folder of sockets may be the upper one, when something else of ours comes first.
    for folder in (places / "a", places / "a" / "b"):
        assert folder.stat().st_mode & 0o777 == 0o700
    ensure_private_dir(places / "a" / "b")


def test_a_folder_that_cannot_be_made_is_named(places: Path) -> None:
    (places / "file").touch()
    with pytest.raises(AddressError, match="cannot make"):
        ensure_private_dir(places / "file" / "below")


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTORD_ADDRESS", "unix:/run/mine.sock")
    assert configured_address() == "unix:/run/mine.sock"


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("tempfile.gettempdir", none)
    with pytest.raises(AddressError, match="TMPDIR"):
        default_address()


def test_paths_of_both_spellings() -> None:
    assert socket_path("unix:/run/a.sock") == Path("/run/a.sock")
    assert socket_path("unix:///run/a.sock") == Path("/run/a.sock")


@pytest.mark.parametrize(
    ("address", "said"),
    [("localhost:1", "Unix socket"), ("unix:a.sock", "relative"), ("unix:", "relative"), ("dns:///a", "Unix socket")],
)
def test_other_addresses_are_refused(address: str, said: str) -> None:
    with pytest.raises(AddressError, match=said):
        socket_path(address)


def test_the_longest_path_that_the_kernel_takes() -> None:
    longest = "/" + "x" * 106
    assert len(str(socket_path(f"unix:{longest}"))) == 107
    with pytest.raises(AddressError, match="108 bytes"):
        socket_path(f"unix:{longest}x")
    # Bytes count, not characters.
    with pytest.raises(AddressError, match="bytes"):
        socket_path("unix:/" + "ä" * 60)
