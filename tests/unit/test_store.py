"""The store on real files, with nothing going wrong."""

import asyncio
import dataclasses
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.stores import META, Recorder, artifact, blob_names, blob_path, key_of, open_store

from inductord.daemon.store import ArtifactTooLarge, Store, StoreBusy, StoreUnusable

pytestmark = pytest.mark.unit

A, B, C, D = (key_of(number) for number in range(4))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "store"


def keys(store: Store) -> list[str]:
    return [record.key for record in store.list(after=None, limit=1000)]


async def test_what_is_published_is_found_and_read(path: Path) -> None:
    store = await open_store(path)
    assert store.find(A) is None
    assert await store.read(A) is None
    record = await store.publish(A, b"artifact", META)
    assert (record.key, record.size, record.uses) == (A, 8, 0)
    assert record.meta == dataclasses.replace(META, key_parts={})
    assert await store.key_parts(A) == META.key_parts
    assert store.find(A) == record
    read = await store.read(A)
    assert read is not None
    assert read[1] == b"artifact"
    assert read[0].uses == 1
    assert read[0].used > record.used
    assert blob_path(path, b"artifact").read_bytes() == b"artifact"
    await store.close()


async def test_it_outlives_its_process_with_counts_of_use(path: Path) -> None:
    store = await open_store(path)
    await store.publish(A, b"artifact", META)
    for _ in range(3):
        await store.read(A)
    before = store.find(A)
    await store.close()
    await store.close()

    store = await open_store(path)
    assert store.find(A) == before
    assert before is not None
    assert before.uses == 3
    assert await store.key_parts(A) == META.key_parts
    assert await store.key_parts(B) == {}
    read = await store.read(A)
    assert read is not None
    assert read[1] == b"artifact"
    await store.close()


async def test_counts_of_use_are_saved_while_it_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inductord.daemon.store.store._SAVE_USES_AFTER_S", 0.01)
    store = await open_store(path)
    await store.publish(A, b"artifact", META)
    await store.read(A)
    # As after a kill: a copy of the files of a store that is open. The index itself is locked against other readers.
    saved = 0
    async with asyncio.timeout(60):
        while not saved:
            await asyncio.sleep(0.02)
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            shutil.copytree(path, tmp_path / "copy")
            copy = await open_store(tmp_path / "copy")
            record = copy.find(A)
            saved = record.uses if record else 0
            await copy.close()
    assert saved == 1
    await store.close()


async def test_an_empty_artifact_is_one(path: Path) -> None:
    store = await open_store(path)
    await store.publish(A, b"", META)
    read = await store.read(A)
    assert read is not None
    assert read[1] == b""
    await store.close()


async def test_first_writer_wins(path: Path) -> None:
    store = await open_store(path)
    first = await store.publish(A, b"first", META)
    assert await store.publish(A, b"second", META) == first
    several = await asyncio.gather(*(store.publish(B, f"try {n}".encode(), META) for n in range(8)))
    assert len({record.sha256 for record in several}) == 1
    assert len(blob_names(path)) == 2, "losers leave nothing behind"
    await store.close()


async def test_keys_share_equal_content(path: Path) -> None:
    store = await open_store(path)
    data = artifact(1, 1000)
    await store.publish(A, data, META)
    await store.publish(B, data, META)
    assert store.status().entries == 2
    assert store.status().bytes == 1000
    assert len(blob_names(path)) == 1
    await store.close()
    store = await open_store(path)
    assert store.status().bytes == 1000
    assert await store.collect(0) == (2, 1000)
    assert blob_names(path) == set()
    await store.close()


async def test_least_recently_used_goes_first(path: Path) -> None:
    events = Recorder()
    store = await open_store(path, max_bytes=3000, events=events)
    for number, key in enumerate((A, B, C)):
        await store.publish(key, artifact(number, 1000), META)
    await store.read(A)
    await store.publish(D, artifact(3, 1500), META)
    assert keys(store) == [D, A]
    assert blob_names(path) == {blob_path(path, artifact(n, size)).name for n, size in ((0, 1000), (3, 1500))}
    assert events.counts["evicted size"] == 2
    assert store.status().evictions == 2
    await store.close()


async def test_order_of_use_outlives_a_restart(path: Path) -> None:
    store = await open_store(path, max_bytes=3000)
    for number, key in enumerate((A, B, C)):
        await store.publish(key, artifact(number, 1000), META)
    await store.read(A)
    await store.close()
    store = await open_store(path, max_bytes=2000)
    assert keys(store) == [A, C], "a smaller limit holds at once"
    await store.close()


async def test_a_shared_blob_is_as_fresh_as_its_freshest_key(path: Path) -> None:
    store = await open_store(path, max_bytes=2000)
    shared = artifact(0, 1000)
    await store.publish(A, shared, META)
    await store.publish(B, artifact(1, 1000), META)
    await store.publish(C, shared, META)
    await store.publish(D, artifact(2, 1000), META)
    assert sorted(keys(store)) == sorted([A, C, D])
    await store.close()


async def test_pinned_entries_are_spared(path: Path) -> None:
    store = await open_store(path, max_bytes=2000)
    await store.publish(A, artifact(0, 1000), META)
    await store.publish(B, artifact(1, 1000), META)
    with store.pin(A), store.pin(A):
        with store.pin(A):
            await store.publish(C, artifact(2, 1000), META)
        assert keys(store) == [C, A]
        assert await store.collect(0) == (1, 1000)
        read = await store.read(A)
        assert read is not None
        assert read[1] == artifact(0, 1000)
        with store.pin("absent"):
            pass
    assert await store.collect(0) == (1, 1000)
    assert store.status().entries == 0
    await store.close()


async def test_collect(path: Path) -> None:
    events = Recorder()
    store = await open_store(path, max_bytes=10_000, events=events)
    for number, key in enumerate((A, B, C)):
        await store.publish(key, artifact(number, 1000), META)
    assert await store.collect(None) == (0, 0), "it is within its limit"
    assert await store.collect(1999) == (2, 2000)
    assert keys(store) == [C]
    assert events.counts["evicted gc"] == 2
    await store.close()
    store = await open_store(path)
    assert keys(store) == [C]
    await store.close()


async def test_what_can_never_fit_is_refused(path: Path) -> None:
    store = await open_store(path, max_bytes=1000)
    await store.publish(A, artifact(0, 1000), META)
    with pytest.raises(ArtifactTooLarge) as caught:
        await store.publish(B, artifact(1, 1001), META)
    assert (caught.value.size, caught.value.limit) == (1001, 1000)
    assert keys(store) == [A], "nothing was evicted for it"
    await store.close()


async def test_list_pages_from_the_most_recently_used(path: Path) -> None:
    store = await open_store(path)
    for number in range(7):
        await store.publish(key_of(number), artifact(number, 10), META)
    expected = [key_of(number) for number in reversed(range(7))]
    pages: list[str] = []
    after = None
    while page := store.list(after=after, limit=3):
        pages += [record.key for record in page]
        after = pages[-1]
    assert pages == expected
    assert store.list(after="absent", limit=3) == []
    await store.close()


async def test_match_finds_by_beginning(path: Path) -> None:
    store = await open_store(path)
    for number in range(50):
        await store.publish(key_of(number), b"same", META)
    everything = sorted(key_of(number) for number in range(50))
    for prefix in ("", "a", everything[7], everything[7][:6], "no"):
        assert [record.key for record in store.match(prefix)] == [key for key in everything if key.startswith(prefix)]
    await store.collect(0)
    assert store.match("") == []
    await store.close()


async def test_memory_serves_what_was_published_or_read_lately(path: Path) -> None:
    events = Recorder()
    store = await open_store(path, memory_bytes=2000, events=events)
    await store.publish(A, artifact(0, 1000), META)
    await store.read(A)
    assert events.counts == {"read memory": 1}
    await store.publish(B, artifact(1, 1000), META)
    await store.publish(C, artifact(2, 1000), META)
    await store.publish(D, artifact(3, 2001), META)
    assert store.status().memory_bytes == 2000
    await store.read(A)
    await store.read(A)
    assert events.counts == {"read memory": 2, "read disk": 1}
    await store.read(D)
    await store.read(D)
    assert events.counts["read disk"] == 3, "larger than the tier"
    await store.collect(0)
    assert store.status().memory_bytes == 0
    await store.close()


async def test_many_readers_of_one_artifact_read_it_once(path: Path) -> None:
    store = await open_store(path)
    await store.publish(A, artifact(0, 500_000), META)
    results = await asyncio.gather(*(store.read(A) for _ in range(64)))
    assert len({id(result[1]) for result in results if result}) == 1
    record = store.find(A)
    assert record is not None
    assert record.uses == 64
    await store.close()


async def test_a_cancelled_reader_does_not_disturb_the_others(path: Path) -> None:
    store = await open_store(path)
    await store.publish(A, artifact(0, 500_000), META)
    first, second = (asyncio.create_task(store.read(A)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    read = await second
    assert read is not None
    assert read[1] == artifact(0, 500_000)
    await store.close()


async def test_a_cancelled_publish_is_whole(path: Path) -> None:
    store = await open_store(path)
    publish = asyncio.create_task(store.publish(A, artifact(0, 100_000), META))
    await asyncio.sleep(0)
    publish.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publish
    await store.close()
    store = await open_store(path)
    read = await store.read(A)
    assert read is not None
    assert read[1] == artifact(0, 100_000)
    await store.close()


async def test_one_process_opens_a_store_once(path: Path) -> None:
    store = await open_store(path)
    with pytest.raises(StoreBusy, match=rf"process {os.getpid()}\b.*inductord stop"):
        await open_store(path)
    await store.publish(A, b"artifact", META)
    await store.close()
    store = await open_store(path)
    assert keys(store) == [A]
    await store.close()


async def test_a_file_in_place_of_the_folder(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("no folder")
    with pytest.raises(StoreUnusable, match="--store"):
        await open_store(path)


async def test_an_index_of_another_release(path: Path) -> None:
    await (await open_store(path)).close()
    with sqlite3.connect(path / "index.sqlite") as connection:
        (own,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreUnusable, match="format 99"):
        await open_store(path)
    with sqlite3.connect(path / "index.sqlite") as connection:
        connection.execute(f"PRAGMA user_version = {own}")
    connection.close()
    await (await open_store(path)).close()


async def test_artifacts_are_for_their_owner_alone(path: Path) -> None:
    store = await open_store(path)
    await store.publish(A, b"artifact", META)
    blob = blob_path(path, b"artifact")
    assert [item.stat().st_mode & 0o077 for item in (path, path / "blobs", blob.parent, blob, path / "tmp")] == [0] * 5
    await store.close()


async def test_files_of_others_are_left_alone(path: Path) -> None:
    await (await open_store(path)).close()
    foreign = path / "blobs" / "ab" / "README"
    foreign.parent.mkdir()
    foreign.write_text("mine")
    await (await open_store(path)).close()
    assert foreign.read_text() == "mine"
