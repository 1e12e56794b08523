"""A process that publishes is killed -9 at any moment: whatever it was told is published is there, and nothing is broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import support.store_victim
from support.store_victim import size_of
from support.stores import artifact, blob_names, key_of

from inductord.daemon.store import Store, StoreBusy

pytestmark = pytest.mark.chaos

VICTIM = Path(support.store_victim.__file__)


def victim(*arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(VICTIM.parent.parent)}
    return subprocess.Popen(
        [sys.executable, str(VICTIM), *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


async def opened(path: Path) -> Store:
    return await Store.open(path, max_bytes=1 << 30, memory_bytes=0)


async def test_killed_while_it_publishes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    promised: dict[str, bytes] = {}
    for publishes in (1, 2, 3, 5, 8, 4, 1, 6):
        process = victim("publish", str(path))
        try:
            assert process.stdout is not None
            for _ in range(publishes):
                number = int(process.stdout.readline())
                promised[key_of(number)] = artifact(number, size_of(number))
            process.kill()
            # What it said between the last line read and its death counts too.
            for line in process.stdout:
                promised[key_of(int(line))] = artifact(int(line), size_of(int(line)))
        finally:
            process.kill()
            process.communicate()

        store = await opened(path)
        listed = {record.key: record for record in store.list(after=None, limit=10_000)}
        assert promised.keys() <= listed.keys(), "a finished publish was lost"
        assert len(listed) <= len(promised) + 1, "at most the one in progress may have come through"
        assert await store.verify() == (len(listed), [])
        for key, data in promised.items():
            read = await store.read(key)
            assert read is not None
            assert read[1] == data
        assert blob_names(path) == {record.sha256.hex() for record in listed.values()}
        assert list((path / "tmp").iterdir()) == []
        await store.close()
        # The next victim goes on behind what it finds.
        promised = {key_of(number): artifact(number, size_of(number)) for number in range(len(listed))}


@pytest.mark.parametrize("operation", sorted(support.store_victim.OPERATIONS))
def test_killed_at_every_line(tmp_path: Path, operation: str) -> None:
    process = victim("lines", str(tmp_path), operation)
    try:
        output, _ = process.communicate(timeout=240)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, output
    assert json.loads(output.splitlines()[-1])["kills"] >= 3, output


async def test_a_second_process_is_told_who_has_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    process = victim("publish", str(path))
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StoreBusy) as caught:
            await opened(path)
        assert caught.value.pid == process.pid
        assert f"process {process.pid}" in str(caught.value)
        # The owner is not disturbed by the attempt.
        assert process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
    store = await opened(path)
    assert store.status().entries >= 2
    await store.close()
