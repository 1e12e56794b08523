"""A running daemon whose store goes bad under it: what was damaged is compiled anew, and the clients just wait."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.rank import key_of, rank

from inductord.v1 import admin_pb2, admin_pb2_grpc
from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.wire, pytest.mark.chaos]

GRAPH = json.dumps([["size", 50_000]]).encode()


def blob(daemon: DaemonProcess) -> Path:
    """The only artifact's file."""
    (path,) = [path for path in (daemon.store / "blobs").rglob("*") if path.is_file()]
    return path


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink], ids=["corrupted", "truncated", "missing"])
async def test_a_damaged_artifact_is_compiled_anew_in_the_same_stream(
    start_daemon: Callable[..., DaemonProcess], damage: Callable[[Path], None]
) -> None:
    # Without a memory tier every hit comes from the disk.
    daemon = start_daemon(memory_bytes=0)
    async with rank(daemon.address) as one:
        first = await one.compile(GRAPH)
        damage(blob(daemon))
        again = await one.compile(GRAPH)
        after = await one.fetch(key_of(GRAPH))
    assert again.asked == 1
    assert again.served == pb.SERVED_LED
    assert after.served == pb.SERVED_HIT
    assert first.artifact == again.artifact == after.artifact
    status = daemon.status()
    assert (status.totals.compiles, status.store.quarantined, status.store.entries) == (2, 1, 1)


async def test_verify_finds_damage_and_quarantines_it(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        await one.compile(GRAPH)
        admin = admin_pb2_grpc.AdminServiceStub(one.channel)
        whole = await admin.VerifyStore(admin_pb2.VerifyStoreRequest())
        flip(blob(daemon))
        damaged = await admin.VerifyStore(admin_pb2.VerifyStoreRequest())
    assert (whole.checked, list(whole.quarantined)) == (1, [])
    assert list(damaged.quarantined) == [key_of(GRAPH)]
    assert daemon.status().store.entries == 0


async def test_entries_are_listed_in_pages_and_found_by_prefix(daemon: DaemonProcess) -> None:
    graphs = [json.dumps([["size", size]]).encode() for size in range(10, 15)]
    async with rank(daemon.address) as one:
        for graph in graphs:
            await one.compile(graph, key_parts={"graph": "abc"}, nodes=7)
        admin = admin_pb2_grpc.AdminServiceStub(one.channel)
        seen: list[str] = []
        token = ""
        while True:
            page = await admin.ListEntries(admin_pb2.ListEntriesRequest(page_size=2, page_token=token))
            assert len(page.entries) <= 2
            seen += [entry.key for entry in page.entries]
            token = page.next_page_token
            if not token:
                break
        entry = (await admin.GetEntry(admin_pb2.GetEntryRequest(key=key_of(graphs[0])[:12]))).entry
    assert seen == [key_of(graph) for graph in reversed(graphs)]
    assert (entry.key, entry.size, entry.nodes, entry.job) == (key_of(graphs[0]), 10, 7, "job")
    assert dict(entry.key_parts) == {"graph": "abc"}


async def test_garbage_is_collected_to_a_size(daemon: DaemonProcess) -> None:
    async with rank(daemon.address) as one:
        for size in (1000, 2000, 3000):
            await one.compile(json.dumps([["size", size]]).encode())
        admin = admin_pb2_grpc.AdminServiceStub(one.channel)
        answer = await admin.CollectGarbage(admin_pb2.CollectGarbageRequest(max_bytes=3500))
        assert (answer.evicted, answer.freed_bytes, answer.bytes) == (2, 3000, 3000)
        kept = await admin.CollectGarbage(admin_pb2.CollectGarbageRequest())
    assert kept.evicted == 0
