"""A process that uses a store and is killed while it does. Run as a script: ``store_victim.py COMMAND STORE [ARGUMENT]``.

publish STORE         publish for ever, a line of output for each publish that returned
lines STORE OPERATION kill a process at every single line of the store's disk code that OPERATION runs, and verify
                      the store after each; a JSON object per kill
"""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any

from support.stores import META, artifact, blob_names, blob_path, key_of

from inductord.daemon import store as store_package
from inductord.daemon.store import Store

LIMIT = 1 << 30
SIZE = 50_000
BEFORE = 4
_CODE = str(Path(store_package.__file__).resolve().parent)

Operation = Callable[[Store], Coroutine[Any, Any, object]]


def size_of(number: int) -> int:
    return (number * 7919) % 300_000


async def opened(path: Path) -> Store:
    return await Store.open(path, max_bytes=LIMIT, memory_bytes=0)


async def publish_for_ever(path: Path) -> None:
    store = await opened(path)
    number = store.status().entries
    while True:
        await store.publish(key_of(number), artifact(number, size_of(number)), META)
        print(number, flush=True)
        number += 1


async def publish_one(store: Store) -> None:
    await store.publish(key_of(100), artifact(100, SIZE), META)


async def publish_shared(store: Store) -> None:
    await store.publish(key_of(101), artifact(0, SIZE), META)


async def evict(store: Store) -> None:
    await store.collect(SIZE)


async def condemn(store: Store) -> None:
    await store.verify()


async def close(store: Store) -> None:
    await store.read(key_of(0))
    await store.close()


OPERATIONS: dict[str, Operation] = {
    function.__name__: function for function in (publish_one, publish_shared, evict, condemn, close)
}


async def prepare(path: Path, operation: str) -> None:
    store = await opened(path)
    for number in range(BEFORE):
        await store.publish(key_of(number), artifact(number, SIZE), META)
    await store.close()
    if operation == "condemn":
        damaged = blob_path(path, artifact(1, SIZE))
        damaged.write_bytes(bytes(SIZE))


async def operate(path: Path, operation: Operation, die_at: int) -> None:
    """Run ``operation`` and be killed at the ``die_at``-th line that the writer thread runs for it."""
    lines = 0
    armed = False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if not os.path.realpath(frame.f_code.co_filename).startswith(_CODE):
            return None
        if event == "line" and armed and threading.current_thread().name.startswith("inductord-store-write"):
            lines += 1
            if lines == die_at:
                os.write(1, f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)
    store = await opened(path)
    armed = True
    await operation(store)


async def verify(path: Path, operation: str) -> None:
    """What must hold after a kill, whenever it came."""
    store = await opened(path)
    contents = {key_of(number): artifact(number, SIZE) for number in [*range(BEFORE), 100]}
    contents[key_of(101)] = artifact(0, SIZE)
    expected = {key_of(number) for number in range(BEFORE)}
    listed = {record.key: record for record in store.list(after=None, limit=100)}
    assert {path.name for path in (path / "tmp").iterdir()} == set(), "an unfinished file was left"
    assert blob_names(path) == {record.sha256.hex() for record in listed.values()}, "blobs and rows differ"
    if operation == "evict":
        assert key_of(BEFORE - 1) in listed
    elif operation == "condemn":
        assert expected - {key_of(1)} <= set(listed)
    else:
        assert expected <= set(listed), "a neighbour was lost"
    for key in listed:
        read = await store.read(key)
        if read is None:
            assert (operation, key) == ("condemn", key_of(1))
        else:
            assert read[1] == contents[key]
            assert hashlib.sha256(read[1]).digest() == read[0].sha256
    # It works on.
    await store.publish("f" * 64, b"afterwards", META)
    assert await store.read("f" * 64) is not None
    await store.close()


def in_child(run: Coroutine[Any, Any, None]) -> int:
    """Run in a forked process: this one stays free of threads, so that it may fork again. Returns the exit status."""
    pid = os.fork()
    if pid:
        run.close()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        asyncio.run(run)
        status = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def kill_at_every_line(path: Path, name: str) -> None:
    template = path / "template"
    assert in_child(prepare(template, name)) == 0
    die_at = 0
    while True:
        die_at += 1
        copy = path / "copy"
        shutil.copytree(template, copy)
        died = in_child(operate(copy, OPERATIONS[name], die_at))
        assert in_child(verify(copy, name)) == 0, f"killed at line {die_at} of {name}"
        shutil.rmtree(copy)
        if died != -signal.SIGKILL:
            assert died == 0
            print(json.dumps({"kills": die_at - 1}), flush=True)
            return


if __name__ == "__main__":
    command, store_path = sys.argv[1], Path(sys.argv[2])
    if command == "publish":
        asyncio.run(publish_for_ever(store_path))
    else:
        kill_at_every_line(store_path, sys.argv[3])
