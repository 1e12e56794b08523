"""Artifacts and the index of a store damaged from outside: a damage is a miss, is counted, and is never served."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stores import META, Recorder, artifact, blob_names, blob_path, key_of, open_store, quarantined_files

pytestmark = pytest.mark.chaos

A, B, C = (key_of(number) for number in range(3))
DATA = artifact(0, 100_000)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(500)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def delete(path: Path) -> None:
    path.unlink()


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = pytest.mark.parametrize("damage", [flip, truncate, empty, grow, delete])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@DAMAGES
async def test_damage_in_mid_life_is_a_miss_and_a_publish_mends_it(path: Path, damage: Callable[[Path], None]) -> None:
    events = Recorder()
    store = await open_store(path, events=events)
    await store.publish(A, DATA, META)
    await store.publish(B, DATA, META)
    await store.publish(C, b"other", META)
    damage(blob_path(path, DATA))
    assert await asyncio.gather(*(store.read(key) for key in (A, B, A, B))) == [None] * 4
    assert store.find(A) is None
    assert store.find(B) is None, "it shared the blob"
    assert events.counts == {"quarantined": 1}
    assert store.status().quarantined == 1
    assert len(quarantined_files(path)) == (0 if damage is delete else 1)
    assert not blob_path(path, DATA).exists()

    await store.publish(A, DATA, META)
    for key, data in ((A, DATA), (C, b"other")):
        read = await store.read(key)
        assert read is not None
        assert read[1] == data
    await store.close()


@DAMAGES
async def test_damage_while_closed(path: Path, damage: Callable[[Path], None]) -> None:
    store = await open_store(path)
    await store.publish(A, DATA, META)
    await store.publish(C, b"other", META)
    await store.close()
    damage(blob_path(path, DATA))

    events = Recorder()
    store = await open_store(path, events=events)
    assert await store.read(A) is None
    assert events.counts["quarantined"] == 1
    assert len(quarantined_files(path)) == (0 if damage is delete else 1)
    read = await store.read(C)
    assert read is not None
    assert read[1] == b"other"
    await store.close()
    assert len(blob_names(path)) == 1


async def test_a_folder_in_place_of_a_blob(path: Path) -> None:
    store = await open_store(path)
    await store.publish(A, DATA, META)
    replace_by_folder(blob_path(path, DATA))
    assert await store.read(A) is None
    assert store.status().quarantined == 1
    await store.publish(A, DATA, META)
    assert await store.read(A) is not None
    await store.close()


async def test_memory_serves_what_it_has_of_a_damaged_file(path: Path) -> None:
    store = await open_store(path, memory_bytes=1 << 20)
    await store.publish(A, DATA, META)
    flip(blob_path(path, DATA))
    read = await store.read(A)
    assert read is not None
    assert read[1] == DATA
    assert await store.verify() == (1, [A])
    assert await store.read(A) is None
    assert store.status().memory_bytes == 0
    await store.close()


async def test_verify_names_what_is_damaged(path: Path) -> None:
    store = await open_store(path)
    for number in range(10):
        await store.publish(key_of(number), artifact(number, 1000), META)
    for number in (2, 5):
        flip(blob_path(path, artifact(number, 1000)))
    checked, damaged = await store.verify()
    assert checked == 10
    assert sorted(damaged) == sorted([key_of(2), key_of(5)])
    assert await store.verify() == (8, [])
    await store.close()
    assert len(quarantined_files(path)) == 2


async def test_quarantine_is_bounded_and_the_oldest_make_room(path: Path) -> None:
    store = await open_store(path)
    damaged = [artifact(number, 100) for number in range(20)]
    for data in damaged:
        await store.publish(A, data, META)
        flip(blob_path(path, data))
        assert await store.read(A) is None
    await store.close()
    kept = [name.name.split("-")[1] for name in quarantined_files(path)]
    assert kept == [blob_path(path, data).name for data in damaged[-16:]]


async def test_quarantine_is_bounded_by_bytes(path: Path) -> None:
    store = await open_store(path)
    for number in range(3):
        data = artifact(number, 100)
        await store.publish(A, data, META)
        # Sparse: it is large without taking room.
        with blob_path(path, data).open("r+b") as file:
            file.truncate(100 << 20)
        assert await store.read(A) is None
    await store.close()
    assert len(quarantined_files(path)) == 2


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + bytes(5000)])
async def test_a_damaged_index_is_set_aside_and_the_store_starts_empty(path: Path, content: bytes) -> None:
    store = await open_store(path)
    await store.publish(A, DATA, META)
    await store.close()
    (path / "index.sqlite").write_bytes(content)

    events = Recorder()
    store = await open_store(path, events=events)
    assert store.status().entries == 0
    assert events.counts == {"quarantined": 1}
    assert blob_names(path) == set(), "without rows nobody can find them"
    assert quarantined_files(path)[0].read_bytes() == content
    await store.publish(A, DATA, META)
    await store.close()
    store = await open_store(path)
    assert await store.read(A) is not None
    await store.close()


async def test_a_page_of_the_index_is_overwritten(path: Path) -> None:
    store = await open_store(path, max_bytes=1 << 20)
    for number in range(200):
        await store.publish(key_of(number), artifact(number, 10), META)
    await store.close()
    index = path / "index.sqlite"
    content = bytearray(index.read_bytes())
    assert len(content) > 5 * 4096
    content[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    index.write_bytes(content)
    store = await open_store(path)
    assert store.status().entries == 0
    assert store.status().quarantined == 1
    await store.close()


async def test_a_row_that_cannot_be_read_is_dropped(path: Path) -> None:
    store = await open_store(path)
    await store.publish(A, DATA, META)
    await store.publish(B, b"other", META)
    await store.close()
    connection = sqlite3.connect(path / "index.sqlite")
    with connection:
        connection.execute("UPDATE entries SET meta = ? WHERE key = ?", (b"\xff\xff\xff", A))
    connection.close()
    store = await open_store(path)
    assert store.find(A) is None
    assert store.find(B) is not None
    assert len(blob_names(path)) == 1
    await store.close()
