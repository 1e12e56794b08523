"""The catalog and the memory tier: pure parts of the store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores import META, Clock

from inductord.daemon.store.catalog import Catalog
from inductord.daemon.store.memory import MemoryTier
from inductord.daemon.store.records import Record

pytestmark = pytest.mark.unit


def record(key: str, blob: bytes, size: int = 10) -> Record:
    return Record(key, size, blob, 0.0, 0.0, 0, META)


def test_victims_are_the_least_recently_used_and_no_more_than_needed() -> None:
    catalog = Catalog(Clock())
    for key in "abcd":
        catalog.add(record(key, key.encode()))
    catalog.touch("a")
    assert catalog.victims(40) == []
    assert catalog.victims(39) == [(b"b", 10)]
    assert catalog.victims(20) == [(b"b", 10), (b"c", 10)]
    assert [blob for blob, _ in catalog.victims(0)] == [b"b", b"c", b"d", b"a"]


def test_pins_nest_and_outlive_the_blob() -> None:
    catalog = Catalog(Clock())
    catalog.add(record("a", b"A"))
    with catalog.pinned(b"A"):
        with catalog.pinned(b"A"):
            assert catalog.victims(0) == []
        assert catalog.victims(0) == []
        catalog.drop(b"A")
        catalog.add(record("b", b"A"))
        assert catalog.victims(0) == []
    assert catalog.victims(0) == [(b"A", 10)]


def test_a_pin_is_released_when_its_holder_fails() -> None:
    catalog = Catalog(Clock())
    catalog.add(record("a", b"A"))
    with pytest.raises(RuntimeError), catalog.pinned(b"A"):
        raise RuntimeError
    assert catalog.victims(0) == [(b"A", 10)]


def test_dropping_a_blob_drops_all_its_keys() -> None:
    catalog = Catalog(Clock())
    for key, blob in (("a", b"A"), ("b", b"B"), ("c", b"A")):
        catalog.add(record(key, blob))
    assert catalog.total_bytes == 20
    assert [dropped.key for dropped in catalog.drop(b"A")] == ["a", "c"]
    assert (catalog.total_bytes, len(catalog)) == (10, 1)
    assert [left.key for left in catalog.match("")] == ["b"]
    assert catalog.drop(b"A") == []
    assert catalog.touch("a") is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=60), st.integers(0, 60))
def test_memory_keeps_the_newest_that_fit(puts: list[tuple[int, int]], limit: int) -> None:
    memory = MemoryTier(limit)
    model: dict[bytes, bytes] = {}
    for name, size in puts:
        blob, data = bytes([name]), bytes(size)
        dropped = memory.put(blob, data)
        model.pop(blob, None)
        if size <= limit:
            model[blob] = data
        expected: list[bytes] = []
        while sum(map(len, model.values())) > limit:
            expected.append(next(iter(model)))
            del model[expected[-1]]
        assert dropped == expected
        assert memory.total_bytes == sum(map(len, model.values()))
    for name in range(10):
        assert memory.get(bytes([name])) == model.get(bytes([name]))


def test_an_only_copy_is_kept_though_it_is_larger_than_the_tier() -> None:
    memory = MemoryTier(10)
    memory.put(b"a", bytes(6))
    assert memory.put(b"b", bytes(50), only_copy=True) == [b"a"]
    assert memory.get(b"b") == bytes(50)
    assert memory.put(b"c", bytes(6)) == [b"b"]
    assert memory.total_bytes == 6
