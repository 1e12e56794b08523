"""The store against a dictionary, under whatever order of uses, damages and restarts Hypothesis thinks of."""

import asyncio
import os
import tempfile
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.stores import META, Clock, Recorder, artifact, blob_names, blob_path, key_of, open_store

from inductord.daemon.store import Store

pytestmark = pytest.mark.unit

LIMIT = 5000
# Thousands of publishes are synced to the disk; where there is a memory file system they cost nothing.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# Few keys and fewer contents, so that they meet often.
KEYS = st.integers(0, 5).map(key_of)
CONTENTS = st.integers(0, 3).map(lambda number: artifact(number, 1000 + 400 * number))


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cleanup = ExitStack()
        self.path = Path(self.cleanup.enter_context(tempfile.TemporaryDirectory(dir=FAST))) / "store"
        self.clock = Clock()
        self.runner = self.cleanup.enter_context(asyncio.Runner())
        self.events = Recorder()
        self.store = self.opened()
        # Least recently used first.
        self.model: OrderedDict[str, bytes] = OrderedDict()
        self.damaged: set[bytes] = set()
        self.pins: dict[bytes, ExitStack] = {}

    def opened(self) -> Store:
        return self.runner.run(open_store(self.path, max_bytes=LIMIT, events=self.events, clock=self.clock))

    def blobs(self) -> "OrderedDict[bytes, None]":
        """Distinct contents, least recently used first."""
        ordered: OrderedDict[bytes, None] = OrderedDict()
        for data in self.model.values():
            ordered[data] = None
            ordered.move_to_end(data)
        return ordered

    def shrink(self, target: int) -> int:
        blobs = self.blobs()
        left = sum(map(len, blobs))
        evicted = 0
        for data in blobs:
            if left > target and data not in self.pins:
                left -= len(data)
                evicted += self.drop(data)
        return evicted

    def drop(self, data: bytes) -> int:
        keys = [key for key, held in self.model.items() if held == data]
        for key in keys:
            del self.model[key]
        self.damaged.discard(data)
        return len(keys)

    @rule(key=KEYS, data=CONTENTS)
    def publish(self, key: str, data: bytes) -> None:
        self.runner.run(self.store.publish(key, data, META))
        if key not in self.model:
            if data not in self.model.values():
                self.shrink(LIMIT - len(data))
                assert self.store.status().bytes <= LIMIT or self.pins
            self.model[key] = data
            self.damaged.discard(data)

    @rule(key=KEYS)
    def read(self, key: str) -> None:
        result = self.runner.run(self.store.read(key))
        expected = self.model.get(key)
        if expected is None:
            assert result is None
        elif expected in self.damaged:
            assert result is None
            self.drop(expected)
        else:
            assert result is not None
            assert result[1] == expected
            self.model.move_to_end(key)

    @rule(limit=st.integers(0, LIMIT))
    def collect(self, limit: int) -> None:
        evicted, _ = self.runner.run(self.store.collect(limit))
        assert evicted == self.shrink(limit)

    @rule()
    def verify(self) -> None:
        checked, damaged = self.runner.run(self.store.verify())
        assert checked == len(self.model)
        assert set(damaged) == {key for key, data in self.model.items() if data in self.damaged}
        for data in list(self.damaged):
            self.drop(data)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), how=st.sampled_from(["flip", "cut", "delete"]))
    def damage(self, data: st.DataObject, how: str) -> None:
        victim = data.draw(st.sampled_from(sorted(set(self.model.values()))))
        path = blob_path(self.path, victim)
        if how == "delete":
            path.unlink(missing_ok=True)
        elif path.exists():
            path.write_bytes(victim[:-1] if how == "cut" else bytes([victim[0] ^ 1]) + victim[1:])
        self.damaged.add(victim)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        stack = self.pins.setdefault(self.model[key], ExitStack())
        stack.enter_context(self.store.pin(key))

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        self.pins.pop(data.draw(st.sampled_from(sorted(self.pins)))).close()

    @rule()
    def restart(self) -> None:
        for stack in self.pins.values():
            stack.close()
        self.pins.clear()
        self.runner.run(self.store.close())
        self.store = self.opened()
        # Sizes are checked at once, digests when they are read.
        for data in list(self.damaged):
            if not (kept := blob_path(self.path, data)).exists() or kept.stat().st_size != len(data):
                self.drop(data)
        self.shrink(LIMIT)
        named = {blob_path(self.path, data).name for data in self.model.values()}
        assert blob_names(self.path) == named, "something was left over or lost"

    @invariant()
    def agrees(self) -> None:
        listed = self.store.list(after=None, limit=100)
        assert [record.key for record in listed] == list(reversed(self.model))
        status = self.store.status()
        assert status.entries == len(self.model)
        assert status.bytes == sum(map(len, self.blobs()))
        assert status.note == ""
        for record in listed:
            assert record.size == len(self.model[record.key])
            assert self.store.find(record.key) == record

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.cleanup.close()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
