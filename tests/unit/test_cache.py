"""The cache behind PyTorch's remote caches: bounded, each tenant's own, and empty again after any damage."""

import errno
import itertools
from pathlib import Path

import pytest

from inductord.daemon.cache import BlobCache

pytestmark = pytest.mark.unit


def opened(folder: Path, max_bytes: int = 100) -> BlobCache:
    ticks = itertools.count()
    return BlobCache(folder / "cache.sqlite", lambda: float(next(ticks)), max_bytes)


def test_the_last_value_counts_and_outlives_the_process(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    assert cache.get("", "pgo", "job") is None
    assert cache.put("", "pgo", "job", b"first")
    assert cache.put("", "pgo", "job", b"second")
    cache.close()
    again = opened(tmp_path)
    assert again.get("", "pgo", "job") == b"second"
    again.close()
    assert (cache.failures, again.failures) == (0, 0)


def test_tenants_and_caches_do_not_meet(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    places = [("", "aot", "k"), ("a", "aot", "k"), ("b", "aot", "k"), ("a", "pgo", "k")]
    for place in places:
        assert cache.get(*place) is None
        assert cache.put(*place, repr(place).encode())
    assert [cache.get(*place) for place in places] == [repr(place).encode() for place in places]
    cache.close()


def test_what_was_used_least_recently_goes_first(tmp_path: Path) -> None:
    cache = opened(tmp_path, max_bytes=100)
    for name in "abc":
        assert cache.put("", "aot", name, bytes(30))
    assert cache.get("", "aot", "a") is not None
    assert cache.put("", "aot", "d", bytes(40))
    assert {name: cache.get("", "aot", name) is not None for name in "abcd"} == dict.fromkeys("acd", True) | {
        "b": False
    }
    assert not cache.put("", "aot", "too large", bytes(101))
    assert cache.get("", "aot", "d") == bytes(40)
    cache.close()


def test_a_damaged_file_is_an_empty_cache(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    assert cache.put("", "aot", "k", b"value")
    cache.close()
    (tmp_path / "cache.sqlite").write_bytes(b"no database" * 1000)
    assert cache.get("", "aot", "k") is None
    assert cache.failures == 1
    assert cache.put("", "aot", "k", b"new")
    assert cache.get("", "aot", "k") == b"new"
    cache.close()


def test_a_folder_that_takes_nothing_keeps_nothing(tmp_path: Path) -> None:
    cache = opened(tmp_path / "absent")
    assert not cache.put("", "aot", "k", b"value")
    assert cache.get("", "aot", "k") is None
    assert cache.failures == 2


def test_a_damaged_file_that_cannot_be_removed_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    cache = opened(tmp_path)
    (tmp_path / "cache.sqlite").write_bytes(b"no database" * 1000)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", stuck)
        assert cache.get("", "aot", "k") is None
        assert not cache.put("", "aot", "k", b"value")
    assert cache.failures == 2
    assert cache.get("", "aot", "k") is None  # and now it is removed
    assert cache.put("", "aot", "k", b"value")
    cache.close()
