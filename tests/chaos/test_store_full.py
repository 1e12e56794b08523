"""A disk that takes no writes: whoever waits is served from memory, people are told, and nothing needs a restart."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.needs import needs
from support.stores import META, Recorder, artifact, blob_names, blob_path, key_of, open_store

from inductord.daemon.store import Store

pytestmark = pytest.mark.chaos

A, B, C, D, E = (key_of(number) for number in range(5))
SIZE = 1 << 20
MEMORY = 16 * SIZE


class FileSizeLimit:
    """The kernel refuses writes beyond half an artifact: EFBIG, as from any full disk, but only for artifacts."""

    def __init__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, self._before[1]))

    def off(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@pytest.fixture
def refusal() -> Iterator[FileSizeLimit]:
    limit = FileSizeLimit()
    yield limit
    limit.off()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "inductord-test", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    needs(mount.returncode == 0, f"the right to mount a small file system: {mount.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(filler: Path) -> None:
    """Write until not one byte fits."""
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert os.statvfs(filler).f_bfree == 0


async def served(store: Store, key: str) -> bytes | None:
    read = await store.read(key)
    return read[1] if read else None


async def test_publish_while_the_disk_refuses_and_after(tmp_path: Path, refusal: FileSizeLimit) -> None:
    path = tmp_path / "store"
    events = Recorder()
    store = await open_store(path, max_bytes=100 * SIZE, memory_bytes=MEMORY, events=events)
    await store.publish(A, artifact(0, SIZE), META)
    refusal.on()
    for number, key in ((1, B), (2, C)):
        record = await store.publish(key, artifact(number, SIZE), META)
        assert store.find(key) == record
        assert await served(store, key) == artifact(number, SIZE)
        assert await store.key_parts(key) == META.key_parts
    assert events.counts["write_failed"] == 2
    assert str(path) in store.status().note
    assert "File too large" in store.status().note
    assert store.status().entries == 3
    assert list((path / "tmp").iterdir()) == [], "failed writes leave nothing behind"
    assert await store.verify() == (1, []), "what is only in memory cannot be verified on disk"

    refusal.off()
    await store.publish(D, artifact(3, SIZE), META)
    assert store.status().note == ""
    await store.close()

    store = await open_store(path, max_bytes=100 * SIZE)
    for number, key in enumerate((A, B, C, D)):
        assert await served(store, key) == artifact(number, SIZE), "what was only in memory is on disk now"
        assert await store.key_parts(key) == META.key_parts
    await store.close()


async def test_what_is_only_in_memory_is_lost_with_the_process_and_with_room(
    tmp_path: Path, refusal: FileSizeLimit
) -> None:
    path = tmp_path / "store"
    events = Recorder()
    store = await open_store(path, max_bytes=100 * SIZE, memory_bytes=2 * SIZE, events=events)
    refusal.on()
    for number, key in enumerate((A, B, C)):
        await store.publish(key, artifact(number, SIZE), META)
    assert store.find(A) is None, "a record without bytes would be a lie"
    assert events.counts["evicted size"] == 1
    assert await served(store, B) == artifact(1, SIZE)
    assert store.status().bytes == 2 * SIZE
    assert await store.collect(0) == (2, 2 * SIZE)
    refusal.off()
    await store.close()
    store = await open_store(path)
    assert store.status().entries == 0
    await store.close()


async def test_an_artifact_larger_than_the_memory_tier_is_served_while_the_disk_refuses(
    tmp_path: Path, refusal: FileSizeLimit
) -> None:
    store = await open_store(tmp_path / "store", max_bytes=100 * SIZE, memory_bytes=1000)
    refusal.on()
    await store.publish(A, artifact(0, SIZE), META)
    assert await served(store, A) == artifact(0, SIZE)
    refusal.off()
    await store.close()


async def test_equal_content_while_the_disk_refuses(tmp_path: Path, refusal: FileSizeLimit) -> None:
    path = tmp_path / "store"
    store = await open_store(path, max_bytes=100 * SIZE, memory_bytes=MEMORY)
    refusal.on()
    await store.publish(A, artifact(0, SIZE), META)
    await store.publish(B, artifact(0, SIZE), META)
    refusal.off()
    await store.publish(C, artifact(0, SIZE), META)
    await store.close()
    store = await open_store(path, max_bytes=100 * SIZE)
    for key in (A, B, C):
        assert await served(store, key) == artifact(0, SIZE)
    assert store.status().bytes == SIZE
    await store.close()


async def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    path = small_disk / "store"
    events = Recorder()
    store = await open_store(path, max_bytes=100 * SIZE, memory_bytes=MEMORY, events=events)
    for number in range(8):
        await store.publish(key_of(number), artifact(number, SIZE), META)
    assert "No space left" in store.status().note
    assert events.counts["write_failed"] >= 4
    for number in range(8):
        assert await served(store, key_of(number)) == artifact(number, SIZE)
    # Not one byte is left, so the index cannot be written either.
    filler = small_disk / "filler"
    fill(filler)
    for number in range(100, 150):
        await store.publish(key_of(number), artifact(number, 10), META)
        assert await served(store, key_of(number)) == artifact(number, 10)
    on_disk = blob_names(path)
    assert on_disk, "some came through before it was full"

    filler.unlink()
    assert (await store.collect(5 * SIZE))[0] > 0
    await store.publish(D, artifact(3, SIZE), META)
    await store.publish(key_of(1000), b"small", META)
    await store.close()

    store = await open_store(path, max_bytes=100 * SIZE)
    checked, damaged = await store.verify()
    assert damaged == []
    assert checked == store.status().entries > 0
    assert await served(store, key_of(1000)) == b"small"
    await store.close()


async def test_a_full_disk_still_serves_what_it_has(small_disk: Path) -> None:
    path = small_disk / "store"
    store = await open_store(path)
    await store.publish(A, artifact(0, 1000), META)
    await store.close()
    filler = small_disk / "filler"
    fill(filler)
    store = await open_store(path, memory_bytes=MEMORY)
    assert await served(store, A) == artifact(0, 1000)
    await store.publish(B, artifact(1, 100_000), META)
    assert await served(store, B) == artifact(1, 100_000)
    assert store.status().note
    await store.close()


async def test_evicting_makes_room_on_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "store"
    store = await open_store(path, max_bytes=8 * SIZE, memory_bytes=MEMORY)
    for number, key in enumerate((A, B, C)):
        await store.publish(key, artifact(number, SIZE // 2), META)
    fill(small_disk / "filler")
    assert await store.collect(SIZE // 2) == (2, SIZE)
    assert blob_names(path) == {blob_path(path, artifact(2, SIZE // 2)).name}
    await store.publish(D, artifact(3, SIZE // 2), META)
    assert store.status().note == ""
    await store.close()
    store = await open_store(path, max_bytes=8 * SIZE, memory_bytes=MEMORY)
    assert [store.find(key) is not None for key in (A, B, C, D)] == [False, False, True, True]
    await store.close()


async def test_the_folder_vanishes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = await open_store(path, memory_bytes=MEMORY)
    await store.publish(A, artifact(0, 1000), META)
    for folder in ("blobs", "tmp"):
        (path / folder).rename(tmp_path / folder)
    assert await served(store, A) == artifact(0, 1000), "from memory"
    await store.publish(B, artifact(1, 1000), META)
    assert await served(store, B) == artifact(1, 1000)
    assert store.status().note
    for folder in ("blobs", "tmp"):
        (tmp_path / folder).rename(path / folder)
    await store.publish(C, artifact(2, 1000), META)
    assert store.status().note == ""
    assert blob_path(path, artifact(1, 1000)).exists()
    await store.close()


async def test_what_the_disk_does_not_let_go_is_still_counted_and_bounds_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    events = Recorder()
    store = await open_store(path, max_bytes=3000, memory_bytes=MEMORY, events=events)
    for number, key in enumerate((A, B, C)):
        await store.publish(key, artifact(number, 1000), META)
    stuck = blob_path(path, artifact(0, 1000))
    kept = stuck.rename(tmp_path / "kept")
    stuck.mkdir()  # which no `unlink` removes
    await store.publish(D, artifact(3, 1000), META)
    assert events.counts == {"write_failed": 1}
    assert store.status().note
    assert store.status().bytes == 4000, "what is on disk, and D in memory"
    assert not blob_path(path, artifact(3, 1000)).exists(), "there was no room for it"
    assert await served(store, D) == artifact(3, 1000)
    # The next one takes its room from others, and then all is written.
    await store.publish(E, artifact(4, 1000), META)
    assert events.counts["evicted size"] == 2
    assert store.status().bytes == 3000
    assert [store.find(key) is not None for key in (A, B, C, D, E)] == [True, False, False, True, True]
    assert blob_path(path, artifact(3, 1000)).exists()
    assert store.status().note == ""
    stuck.rmdir()
    kept.rename(stuck)
    assert await served(store, A) == artifact(0, 1000)
    assert await store.collect(0) == (3, 3000)
    assert store.status().bytes == 0
    assert not stuck.exists()
    await store.close()
