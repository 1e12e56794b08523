"""Tuning over the wire: one rank measures, the others take its choice, and a leader's death hands over."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.aio
import pytest
from support.daemon import CHANNEL_OPTIONS, DaemonProcess, wait_until
from support.pools import DEADLINE_S
from support.scrape import nonzero

from inductord.compiler.client import Client
from inductord.compiler.tuning import Tuner
from inductord.compiler.versions import this_version
from inductord.v1.compiler_pb2 import Requester
from inductord.v1.tuning_pb2 import OpenTuning, TuneRequest, TuneResponse, TuningRecord
from inductord.v1.tuning_pb2_grpc import TuningServiceStub

pytestmark = pytest.mark.wire

KEY = hashlib.sha256(b"a kernel").hexdigest()
OTHER = hashlib.sha256(b"another kernel").hexdigest()


def requester() -> Requester:
    return Requester(job="job", rank=0, world_size=2, pid=1)


class Stream:
    """One Tune stream, step by step."""

    def __init__(self, stub: TuningServiceStub) -> None:
        self._call = stub.Tune()

    async def open(self, key: str = KEY, device: str = "GPU-0") -> None:
        opening = OpenTuning(client=this_version(), key=key, device=device, requester=requester())
        await self._call.write(TuneRequest(open=opening))

    async def record(self, choice: str) -> None:
        await self._call.write(TuneRequest(record=TuningRecord(choice=choice)))

    async def hear(self) -> TuneResponse:
        return await asyncio.wait_for(self._call.read(), DEADLINE_S)

    async def chosen(self) -> str:
        return (await self.hear()).record.choice

    def cancel(self) -> None:
        self._call.cancel()


def tuned(daemon: DaemonProcess) -> dict[str, int]:
    """How ranks came to their choices, as the daemon counted it."""
    return nonzero(daemon, "inductord_kernel_tunings_total")


@contextlib.asynccontextmanager
async def streams(address: str) -> AsyncIterator[TuningServiceStub]:
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield TuningServiceStub(channel)


async def test_one_measures_and_the_others_take_its_choice(daemon: DaemonProcess) -> None:
    async with streams(daemon.address) as stub:
        leading, waiting, later = Stream(stub), Stream(stub), Stream(stub)
        await leading.open()
        assert (await leading.hear()).HasField("lead")
        await waiting.open(device="GPU-1")
        await leading.record("XBLOCK 8")
        assert [await leading.chosen(), await waiting.chosen()] == ["XBLOCK 8", "XBLOCK 8"]
        await later.open()
        assert await later.chosen() == "XBLOCK 8"
    # The second may have been read when the choice was there already.
    ends = ({"measured": 1, "joined": 1, "found": 1}, {"measured": 1, "found": 2})
    wait_until(lambda: tuned(daemon) in ends, "each is counted")


async def test_the_next_measures_when_the_leader_dies(daemon: DaemonProcess) -> None:
    async with streams(daemon.address) as stub:
        leading, waiting = Stream(stub), Stream(stub)
        await leading.open()
        assert (await leading.hear()).HasField("lead")
        await waiting.open(device="GPU-1")
        leading.cancel()
        assert (await waiting.hear()).HasField("lead")
        await waiting.record("XBLOCK 1")
        assert await waiting.chosen() == "XBLOCK 1"
    wait_until(lambda: tuned(daemon) == {"failed": 1, "measured": 1}, "each is counted")


async def test_on_one_device_one_measures_at_a_time(daemon: DaemonProcess) -> None:
    async with streams(daemon.address) as stub:
        first, second, elsewhere = Stream(stub), Stream(stub), Stream(stub)
        await first.open(KEY, "GPU-0")
        assert (await first.hear()).HasField("lead")
        await second.open(OTHER, "GPU-0")
        await elsewhere.open(hashlib.sha256(b"a third").hexdigest(), "GPU-1")
        assert (await elsewhere.hear()).HasField("lead")
        answer = asyncio.create_task(second.hear())
        await first.record("XBLOCK 8")
        assert await first.chosen() == "XBLOCK 8"
        assert (await answer).HasField("lead")


async def test_what_is_out_of_order_or_malformed_is_refused(daemon: DaemonProcess) -> None:
    async with streams(daemon.address) as stub:
        for first in (TuneRequest(record=TuningRecord(choice="XBLOCK 8")), TuneRequest(open=OpenTuning(key="no key"))):
            call = stub.Tune()
            await call.write(first)
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_ranks_that_come_at_once_measure_once(daemon: DaemonProcess) -> None:
    measured: list[int] = []

    def measure() -> TuningRecord:
        measured.append(1)
        return TuningRecord(choice="XBLOCK 4", kernel=b"binary")

    def choose(number: int) -> TuningRecord:
        return Tuner(Client(daemon.address), requester).choose(KEY, f"GPU-{number}", measure)

    with ThreadPoolExecutor(8) as pool:
        records = await asyncio.get_running_loop().run_in_executor(None, lambda: list(pool.map(choose, range(8))))
    assert len(measured) == 1
    assert {(record.choice, record.kernel) for record in records} == {("XBLOCK 4", b"binary")}


def test_a_rank_without_a_daemon_measures_by_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    client = Client(f"unix:{tmp_path_factory.mktemp('none')}/d.sock")
    record = Tuner(client, requester).choose(KEY, "GPU-0", lambda: TuningRecord(choice="XBLOCK 2"))
    assert record.choice == "XBLOCK 2"
