"""A shared store through its faults: it is read and written, and a job never waits for it or fails by it."""

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from support.stores import META, SharedRecorder, artifact, key_file, key_of, no_reload

from inductord.daemon.shared.breaker import Breaker
from inductord.daemon.shared.errors import SharedStoreUnusable
from inductord.daemon.shared.events import Operation
from inductord.daemon.shared.keys import KeyFile
from inductord.daemon.shared.objects import Objects, redacted
from inductord.daemon.shared.store import SharedLimits, SharedStore, open_shared
from inductord.daemon.shared.threads import Threads
from inductord.daemon.shared.writes import WriteQueue

pytestmark = pytest.mark.unit

KEY = key_of(1)
DATA = artifact(1, 5000)
DIGEST = hashlib.sha256(DATA).digest()
LIMITS = SharedLimits(max_artifact_bytes=10_000, read_seconds=30)


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield f"file://{tmp_path}/shared"
        return
    yield f"memory://{tmp_path.name}"
    memory = fsspec.filesystem("memory")
    if memory.exists(f"/{tmp_path.name}"):
        memory.rm(f"/{tmp_path.name}", recursive=True)


def shared(folder: Path, url: str, events: SharedRecorder, **options: Any) -> SharedStore:
    path = folder / "keys"
    return SharedStore(
        url,
        KeyFile(path if path.exists() else key_file(folder), no_reload),
        options.pop("limits", LIMITS),
        events,
        **options,
    )


async def publish(store: SharedStore, key: str = KEY, tenant: str = "", data: bytes = DATA) -> None:
    store.offer(key, tenant, data, hashlib.sha256(data).digest(), META)
    await store.close()


def objects(url: str) -> dict[str, bytes]:
    fs, root = fsspec.core.url_to_fs(url)
    return {path.removeprefix(root): fs.cat_file(path) for path in fs.find(root)} if fs.exists(root) else {}


def replace(url: str, change: Callable[[bytes], bytes]) -> None:
    fs, root = fsspec.core.url_to_fs(url)
    (path,) = fs.find(root)
    fs.pipe_file(path, change(fs.cat_file(path)))


async def test_what_one_writes_another_reads(tmp_path: Path, url: str) -> None:
    writing, reading = SharedRecorder(), SharedRecorder()
    one, two = shared(tmp_path, url, writing), shared(tmp_path, url, reading)
    assert await one.fetch(KEY, "") is None
    await publish(one)
    found = await two.fetch(KEY, "")
    assert found is not None
    assert (found.content, found.meta()) == (DATA, META)
    assert writing.counts == {"read absent": 1, "bytes in": 0, "write stored": 1, "bytes out": len(DATA)}
    assert reading.counts == {"read hit": 1, "bytes in": len(DATA)}
    status = one.status()
    assert (status.absent, status.written, status.queued, status.note) == (1, 1, 0, "")
    # No half-written file lies about.
    assert len(objects(url)) == 1


async def test_tenants_do_not_see_each_other(tmp_path: Path, url: str) -> None:
    events = SharedRecorder()
    store = shared(tmp_path, url, events)
    await publish(store, tenant="red")
    assert await store.fetch(KEY, "blue") is None
    assert await store.fetch(KEY, "") is None
    assert events.seen("read") == {"absent": 2}
    assert await store.fetch(KEY, "red") is not None
    assert not [name for name in objects(url) if "red" in name]


async def test_another_tenants_object_under_ones_name_is_refused(tmp_path: Path, url: str) -> None:
    events = SharedRecorder()
    store = shared(tmp_path, url, events)
    await publish(store, tenant="red")
    (stolen,) = objects(url).values()
    replace(url, lambda data: data)
    fs, root = fsspec.core.url_to_fs(url)
    owner = hashlib.sha256(b"blue").hexdigest()[:32]
    path = f"{root}/inductord-1/{owner}/{KEY[:2]}/{KEY}"
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(path, stolen)
    assert await store.fetch(KEY, "blue") is None
    assert events.seen("read") == {"other_tenant": 1}


async def test_damage_is_refused_counted_and_overwritten(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    events = SharedRecorder()
    store = shared(tmp_path, url, events)
    await publish(store)
    replace(url, lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    assert await store.fetch(KEY, "") is None
    replace(url, lambda data: data[:100])
    assert await store.fetch(KEY, "") is None
    replace(url, lambda _: b"")
    assert await store.fetch(KEY, "") is None
    assert sum(events.seen("read").values()) == 3
    assert events.seen("read") == {"wrong_digest": 1, "malformed": 2}
    assert store.status().refused == 3
    assert (tmp_path / "keys").read_text().splitlines()[1][:64] not in caplog.text
    # Compiled anew by whoever found it.
    await publish(shared(tmp_path, url, events))
    assert await store.fetch(KEY, "") is not None


async def test_another_nodes_key_is_refused_until_it_is_known(tmp_path: Path, url: str) -> None:
    events = SharedRecorder()
    (tmp_path / "other").mkdir()
    await publish(shared(tmp_path / "other", url, SharedRecorder()))
    store = shared(tmp_path, url, events)
    assert await store.fetch(KEY, "") is None
    assert events.seen("read") == {"unknown_key": 1}
    with (tmp_path / "keys").open("a") as file:
        file.write((tmp_path / "other" / "keys").read_text())
    assert await shared(tmp_path, url, events).fetch(KEY, "") is not None


async def test_what_is_too_large_is_not_taken(tmp_path: Path, url: str) -> None:
    events = SharedRecorder()
    await publish(shared(tmp_path, url, SharedRecorder()), data=bytes(400_000))
    assert await shared(tmp_path, url, events).fetch(KEY, "") is None
    assert events.seen("read") == {"too_large": 1}


async def test_read_only_writes_nothing(tmp_path: Path, url: str) -> None:
    events = SharedRecorder()
    await publish(shared(tmp_path, url, events, read_only=True))
    assert (objects(url), events.counts) == ({}, {})


class Broken(Objects):
    """Whose reads and writes do what a test says."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__("memory://broken")
        self.act = act
        self.calls = 0

    def read(self, name: str, max_bytes: int) -> bytes:
        self.calls += 1
        self.act()
        raise FileNotFoundError

    def write(self, name: str, data: bytes) -> None:
        self.calls += 1
        self.act()


def down() -> None:
    raise ConnectionError("no route to s3://user:hunter2@host/?X-Amz-Signature=hunter3")


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_store_that_is_down_is_left_alone_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events, clock, broken = SharedRecorder(), Time(), Broken(down)
    store = shared(tmp_path, "memory://x", events, objects=broken, clock=clock)
    with caplog.at_level(logging.DEBUG):
        for _ in range(10):
            assert await store.fetch(KEY, "") is None
    assert (events.seen("read"), broken.calls) == ({"error": 3, "resting": 7}, 3)
    assert events.resting == {Operation.READ}
    assert "left alone" in caplog.text
    assert "hunter" not in caplog.text + store.status().note
    assert "ConnectionError" in store.status().note
    clock.now += 31
    broken.act = lambda: None
    assert await store.fetch(KEY, "") is None
    assert events.seen("read")["absent"] == 1
    assert (events.resting, store.status().note) == (set(), "")


async def test_a_read_that_hangs_ends_within_its_limit_and_keeps_nothing_from_ending(tmp_path: Path) -> None:
    events, release = SharedRecorder(), threading.Event()
    broken = Broken(lambda: release.wait(60) and None)
    store = shared(tmp_path, "memory://x", events, objects=broken, limits=SharedLimits(10_000, read_seconds=0.05))
    assert await store.fetch(KEY, "") is None
    assert events.seen("read") == {"timeout": 1}
    hanging = [thread for thread in threading.enumerate() if thread.name == "inductord-shared-read"]
    # The interpreter does not wait for such threads.
    assert hanging
    assert all(thread.daemon for thread in hanging)
    release.set()


async def test_calls_wait_for_their_turn() -> None:
    threads = Threads("test", 1)
    release = threading.Event()
    first = asyncio.create_task(threads.run(lambda: release.wait(60), 60))
    await asyncio.sleep(0)
    second = asyncio.create_task(threads.run(lambda: 2, 60))
    with pytest.raises(TimeoutError):
        await threads.run(lambda: 3, 0.01)
    release.set()
    assert (await first, await second) == (True, 2)


# Writing


def queue(events: SharedRecorder, **options: Any) -> WriteQueue:
    return WriteQueue(Breaker(time.monotonic), events, first_pause=0.001, **options)


async def test_a_write_is_tried_again_and_then_given_up() -> None:
    events, calls = SharedRecorder(), []

    def full() -> None:
        calls.append(1)
        raise OSError(28, "No space left on device")

    writes = queue(events)
    for _ in range(3):
        writes.put(10, full)
    while len(writes):  # noqa: ASYNC110 -- the queue tells nobody
        await asyncio.sleep(0.001)
    for _ in range(2):
        writes.put(10, full)
    await writes.close(60)
    assert events.seen("write") == {"failed": 3, "resting": 2}
    # Three tries each.
    assert len(calls) == 9
    assert (events.resting, len(writes)) == ({Operation.WRITE}, 0)
    assert "No space left" in writes.last_error


async def test_a_write_that_works_at_the_second_try_is_stored() -> None:
    events, tries = SharedRecorder(), iter([down, lambda: None])
    writes = queue(events)
    writes.put(10, lambda: next(tries)())
    await writes.close(60)
    assert events.counts == {"write stored": 1, "bytes out": 10}


async def test_a_full_queue_drops_what_comes_and_a_stop_drops_what_is_left() -> None:
    events, release = SharedRecorder(), threading.Event()
    writes = queue(events, max_queued=2, max_queued_bytes=100)
    for size in (10, 10):
        writes.put(size, lambda: release.wait(60) and None)
    await asyncio.sleep(0)
    for size in (200, 10, 10, 10):
        writes.put(size, lambda: None)
    assert events.seen("write") == {"queue_full": 2}
    assert len(writes) == 4
    await writes.close(0.05)
    release.set()
    assert events.seen("write") == {"queue_full": 2, "stopped": 4}
    writes.put(1, lambda: None)
    assert events.seen("write")["stopped"] == 5


def test_the_breaker_doubles_its_rest_and_lets_one_try_at_a_time() -> None:
    clock = Time()
    breaker = Breaker(clock, failures=2, rest=10, max_rest=30)
    assert breaker.allows()
    assert (breaker.failed(), breaker.open) == (False, False)
    assert (breaker.succeeded(), breaker.failed(), breaker.failed()) == (False, False, True)
    # Of calls that were under way by then.
    assert not any(breaker.failed() for _ in range(5))
    rests = []
    for _ in range(4):
        assert not breaker.allows()
        rests.append(breaker.rest_left)
        clock.now += breaker.rest_left
        assert breaker.allows()
        assert not breaker.allows()
        assert not breaker.failed()
    assert rests == [10, 20, 30, 30]
    clock.now += 30
    assert breaker.allows()
    assert (breaker.succeeded(), breaker.open, breaker.allows()) == (True, False, True)


# Settings


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("/mnt/folder", "no URL"),
        ("file://", "no URL"),
        ("nosuch://x", "knows no"),
        ("dropbox://u:pw@x", "needs the package"),
    ],
)
def test_a_url_that_can_never_work_is_refused_at_once(tmp_path: Path, url: str, says: str) -> None:
    with pytest.raises(SharedStoreUnusable, match=says) as caught:
        open_shared(url, KeyFile(key_file(tmp_path), no_reload), LIMITS, SharedRecorder(), read_only=False)
    assert "pw" not in str(caught.value)


def test_without_keys_there_is_no_shared_store() -> None:
    with pytest.raises(SharedStoreUnusable, match="new-key"):
        open_shared("memory://x", None, LIMITS, SharedRecorder(), read_only=False)


def test_credentials_are_cut_out_of_texts() -> None:
    text = redacted("PUT s3://me:pw@host/a?sig=pw2 failed at https://x:pw@y/b?q=pw#z 'c'")
    assert "pw" not in text
    assert text.startswith("PUT s3://…@host/a?… failed")
