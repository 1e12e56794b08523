"""Daemons on one shared store: what one had compiled the others serve; whatever the store does, graphs are compiled."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.certificates import Authority
from support.daemon import COMMAND, DaemonProcess, wait_until
from support.mounts import needs_mounts, under_mounts
from support.needs import needs_module
from support.rank import key_of, rank
from support.scrape import nonzero, page, samples, value
from support.stores import hangs_at, key_file
from support.tcp import ask, new_token, secured, tcp_address

from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire

GRAPHS = [json.dumps([["size", 1000 + number]]).encode() for number in range(3)]
GRAPH = GRAPHS[0]
READS, WRITES = "inductord_shared_store_reads_total", "inductord_shared_store_writes_total"

Start = Callable[..., DaemonProcess]


@pytest.fixture
def start(start_daemon: Start, tmp_path: Path) -> Start:
    """Starts daemons with the same keys and, unless told otherwise, the same shared folder."""
    keys = key_file(tmp_path)

    def start(**settings: object) -> DaemonProcess:
        shared = {"shared_store": f"file://{tmp_path}/shared", "shared_store_keys": keys}
        return start_daemon(**(shared | settings))

    return start


async def compile_all(daemon: DaemonProcess, graphs: list[bytes] = GRAPHS) -> list[bytes]:
    """What a rank gets for each graph."""
    async with rank(daemon.address) as one:
        return [(await one.compile(graph)).artifact for graph in graphs]


def written(daemon: DaemonProcess, count: int) -> None:
    """Wait until a daemon is done with so many writes."""
    wait_until(lambda: sum(nonzero(daemon, WRITES).values()) == count, f"{count} writes end")


def stored(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "shared").rglob("*") if path.is_file())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


async def test_a_second_daemon_compiles_nothing(start: Start, tmp_path: Path) -> None:
    first, second = start(), start()
    made = await compile_all(first)
    assert nonzero(first, READS) == {"absent": len(GRAPHS)}
    # What waits to be written is written before the daemon is gone.
    assert first.stop() == 0
    async with rank(second.address) as one:
        answers = [await one.fetch(key_of(graph)) for graph in GRAPHS]
        again = await one.fetch(key_of(GRAPH))
    assert [answer.artifact for answer in answers] == made
    assert {answer.served for answer in [*answers, again]} == {pb.SERVED_HIT}
    assert sum(answer.asked for answer in answers) == 0
    status = second.status()
    assert (status.totals.compiles, status.totals.hits, status.store.entries) == (0, len(GRAPHS) + 1, len(GRAPHS))
    # The second hit of a key comes from the node's own store, and nothing goes back to where it came from.
    assert nonzero(second, READS) == {"hit": len(GRAPHS)}
    assert (status.store.shared.hits, status.store.shared.written, status.store.shared.note) == (len(GRAPHS), 0, "")
    bytes_in = value(samples(page(second)), "inductord_shared_store_bytes_total", direction="in")
    assert bytes_in == sum(map(len, made))
    assert len(stored(tmp_path)) == len(GRAPHS)


@pytest.mark.parametrize("there", [True, False], ids=["hit", "miss"])
async def test_many_ranks_cause_one_read(start: Start, there: bool) -> None:
    first, second = start(), start()
    if there:
        await compile_all(first, [GRAPH])
        written(first, 1)
    async with contextlib.AsyncExitStack() as stack:
        ranks = [await stack.enter_async_context(rank(second.address)) for _ in range(16)]
        answers = await asyncio.gather(*(one.compile(GRAPH) for one in ranks))
    assert len({answer.artifact for answer in answers}) == 1
    assert sum(answer.asked for answer in answers) == (0 if there else 1)
    assert nonzero(second, READS) == ({"hit": 1} if there else {"absent": 1})
    assert second.status().totals.compiles == (0 if there else 1)
    if there:
        assert {answer.served for answer in answers} == {pb.SERVED_HIT}


async def test_damage_and_forgery_are_compiled_and_overwritten(start: Start, tmp_path: Path) -> None:
    first = start()
    made = await compile_all(first)
    written(first, len(GRAPHS))
    by_key = {path.name: path for path in stored(tmp_path)}
    flip(by_key[key_of(GRAPHS[0])])
    by_key[key_of(GRAPHS[1])].write_bytes(by_key[key_of(GRAPHS[2])].read_bytes())
    by_key[key_of(GRAPHS[2])].write_bytes(b"")
    second = start()
    assert await compile_all(second) == made
    assert second.status().totals.compiles == len(GRAPHS)
    assert nonzero(second, READS) == {"wrong_digest": 1, "other_key": 1, "malformed": 1}
    assert second.status().store.shared.refused == len(GRAPHS)
    written(second, len(GRAPHS))
    third = start()
    assert await compile_all(third) == made
    assert nonzero(third, READS) == {"hit": len(GRAPHS)}
    secret = (tmp_path / "keys").read_text().splitlines()[1].split()[0]
    assert len(secret) == 64
    assert secret not in first.log() + second.log() + third.log()
    assert "is refused (wrong_digest)" in second.log()


async def test_another_key_is_refused_and_a_rotated_one_is_not(start: Start, tmp_path: Path) -> None:
    first = start()
    await compile_all(first, [GRAPH])
    written(first, 1)
    stranger = start(shared_store_keys=key_file(tmp_path, "other"), shared_store_read_only=True)
    await compile_all(stranger, [GRAPH])
    assert (nonzero(stranger, READS), nonzero(stranger, WRITES)) == ({"unknown_key": 1}, {})
    rotated = tmp_path / "rotated"
    rotated.write_text((tmp_path / "other").read_text() + (tmp_path / "keys").read_text())
    later = start(shared_store_keys=rotated)
    await compile_all(later, [GRAPH])
    assert nonzero(later, READS) == {"hit": 1}


async def test_tenants_share_with_themselves_alone(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown, file = authority.issue("daemon"), tmp_path / "tokens"
    tokens = {tenant: new_token(file, tenant) for tenant in ("acme", "beta")}
    tcp = {"listen": "localhost:0", "tls_cert": shown.cert, "tls_key": shown.key, "tokens": file}
    first, second = start(**tcp), start(**tcp)

    def served(daemon: DaemonProcess, tenant: str) -> int:
        return ask(tcp_address(daemon), secured(authority.ca, token=tokens[tenant]), GRAPH).served

    assert await asyncio.to_thread(served, first, "acme") == pb.SERVED_LED
    written(first, 1)
    assert [await asyncio.to_thread(served, second, tenant) for tenant in ("beta", "acme")] == [
        pb.SERVED_LED,
        pb.SERVED_HIT,
    ]
    async with rank(second.address) as owner:
        assert (await owner.compile(GRAPH)).served == pb.SERVED_LED
    assert nonzero(second, READS) == {"hit": 1, "absent": 2}
    # A copy of what is one tenant's in another's place, as somebody makes it who can write the store.
    written(second, 2)
    by_tenant = {path.parts[-3]: path for path in stored(tmp_path)}
    owners = {tenant: hashlib.sha256(tenant.encode()).hexdigest()[:32] for tenant in ("acme", "beta", "")}
    assert by_tenant.keys() == set(owners.values())
    by_tenant[owners[""]].write_bytes(by_tenant[owners["acme"]].read_bytes())
    third = start()
    await compile_all(third, [GRAPH])
    assert nonzero(third, READS) == {"other_tenant": 1}
    assert third.status().totals.compiles == 1


async def test_a_store_that_is_down_costs_no_graph(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    daemon = start(shared_store=f"file://{tmp_path}/file")
    graphs = [json.dumps([["size", size]]).encode() for size in range(100, 108)]
    await compile_all(daemon, graphs)
    assert daemon.status().totals.compiles == len(graphs)
    assert nonzero(daemon, READS) == {"error": 3, "resting": 5}
    assert value(samples(page(daemon)), "inductord_shared_store_resting", operation="read") == 1
    assert "not read for" in daemon.status().store.shared.note


async def test_a_store_that_hangs_costs_its_time_limit_and_keeps_no_daemon_from_stopping(
    start: Start, tmp_path: Path
) -> None:
    for graph in GRAPHS:
        hangs_at(tmp_path / "shared", key_of(graph))
    daemon = start(shared_store_timeout=1, shared_store_read_only=True)
    async with rank(daemon.address) as one:
        answer = await one.compile(GRAPH)
    assert (answer.served, answer.asked) == (pb.SERVED_LED, 1)
    # It was told of life meanwhile.
    assert pb.COMPILE_STATE_UPLOADING in answer.states
    await compile_all(daemon, GRAPHS[1:2])
    assert nonzero(daemon, READS) == {"timeout": 2}
    assert daemon.stop() == 0


async def test_a_full_store_keeps_serving_what_it_has(start: Start, tmp_path: Path) -> None:
    needs_mounts()
    shared = tmp_path / "small"
    daemon = start(shared_store=f"file://{shared}", command=under_mounts({shared: "size=64k"}, COMMAND))
    await compile_all(daemon, [GRAPH, json.dumps([["size", 200_000]]).encode()])
    written(daemon, 2)
    assert nonzero(daemon, WRITES) == {"stored": 1, "failed": 1}
    assert daemon.status().totals.compiles == 2


def test_what_can_never_work_keeps_the_daemon_from_starting(tmp_path: Path) -> None:
    settings = {"shared_store": "nosuch://user:hunter2@host/x", "shared_store_keys": key_file(tmp_path)}
    daemon = DaemonProcess(tmp_path / "daemon", settings)
    try:
        assert daemon.spawn().wait() == 1
        assert "fsspec knows no 'nosuch'" in daemon.log()
        assert "hunter2" not in daemon.log()
    finally:
        daemon.close()


# An object store


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """The variables by which a driver finds an S3 server with a bucket."""
    for module in ("s3fs", "moto", "flask"):
        needs_module(module)
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    credentials = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_DEFAULT_REGION": "us-east-1"}
    variables = {**credentials, "FSSPEC_S3_ENDPOINT_URL": f"http://{host}:{port}"}
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=variables["FSSPEC_S3_ENDPOINT_URL"],
        aws_access_key_id="user",
        aws_secret_access_key="hunter2",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="shared")
    yield variables
    server.stop()


async def test_daemons_share_an_s3_bucket(start: Start, bucket: dict[str, str]) -> None:
    url = {"shared_store": "s3://shared/folder", "environment": bucket, "shared_store_timeout": 60}
    first, second = start(**url), start(**url)
    made = await compile_all(first)
    written(first, len(GRAPHS))
    assert nonzero(first, WRITES) == {"stored": len(GRAPHS)}
    assert await compile_all(second) == made
    assert nonzero(second, READS) == {"hit": len(GRAPHS)}
    assert second.status().totals.compiles == 0
    assert "hunter2" not in first.log() + second.log()
