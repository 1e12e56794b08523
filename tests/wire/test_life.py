"""Start and stop of a real daemon: health, size, signals, drain, a second one, idleness."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio
import psutil
import pytest
from support.daemon import DaemonProcess, running_daemon, wait_until
from support.needs import needs, needs_module
from support.pools import alive, until
from support.rank import key_of, rank

from inductord.compiler.address import AddressError
from inductord.daemon.listening import Listening
from inductord.v1 import admin_pb2, admin_pb2_grpc
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire


def waiting_for(path: Path) -> bytes:
    """A graph whose compile ends when ``path`` exists."""
    return json.dumps([["wait_for", str(path)]]).encode()


def test_it_is_small_and_has_no_torch(daemon: DaemonProcess) -> None:
    maps = Path(f"/proc/{daemon.pid}/maps").read_text()
    assert "python" in maps
    assert "libtorch" not in maps
    assert "/torch/" not in maps
    assert daemon.status().rss_bytes < 100e6
    assert psutil.Process(daemon.pid).memory_info().rss < 100e6


def test_health_comes_before_any_worker(start_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    daemon = start_daemon(environment={"SCRIPTED_START_NEEDS": str(absent)})
    assert daemon.status().pool.idle == 0


def test_the_socket_is_private(daemon: DaemonProcess) -> None:
    path = Path(daemon.address.removeprefix("unix:"))
    assert path.stat().st_mode & 0o077 == 0


def test_the_socket_may_be_a_groups_too(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(socket_group=os.getgid())
    socket = Path(daemon.address.removeprefix("unix:")).stat()
    assert (socket.st_mode & 0o777, socket.st_gid) == (0o660, os.getgid())


def test_a_group_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AddressError, match="no group 'nobody-has-this'"):
        Listening(f"unix:{tmp_path}/d.sock", "nobody-has-this")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(daemon: DaemonProcess, number: signal.Signals) -> None:
    assert daemon.kill(number) == 0
    daemon.check_clean()


async def test_drain_lets_a_running_compile_end_and_refuses_new_ones(daemon: DaemonProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = waiting_for(go)
    async with rank(daemon.address) as one, rank(daemon.address) as uploader:
        running = await one.open(key_of(script))
        await running.until("send_graph")
        await running.upload(script)
        await running.until_state(pb.COMPILE_STATE_COMPILING)
        unfinished = await uploader.open("a" * 64)
        await unfinished.until("send_graph")
        await admin_pb2_grpc.AdminServiceStub(one.channel).Shutdown(admin_pb2.ShutdownRequest())
        with pytest.raises(grpc.aio.AioRpcError) as given_up:
            await unfinished.finish()
        assert given_up.value.code() == grpc.StatusCode.ABORTED
        await until(lambda: daemon.status().draining, "it drains")
        assert not daemon.healthy()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await one.fetch("b" * 64)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        go.touch()
        answer = await running.finish()
    assert answer.artifact
    assert await asyncio.to_thread(daemon.wait) == 0
    daemon.check_clean()


async def test_what_does_not_end_within_the_drain_time_is_given_up(daemon: DaemonProcess, tmp_path: Path) -> None:
    script = waiting_for(tmp_path / "never")
    async with rank(daemon.address) as one:
        running = await one.open(key_of(script))
        await running.until("send_graph")
        await running.upload(script)
        await running.until_state(pb.COMPILE_STATE_COMPILING)
        daemon.note_children()
        await admin_pb2_grpc.AdminServiceStub(one.channel).Shutdown(admin_pb2.ShutdownRequest(drain_seconds=0.1))
        with pytest.raises(grpc.aio.AioRpcError) as given_up:
            await running.finish()
    assert given_up.value.code() == grpc.StatusCode.ABORTED
    assert await asyncio.to_thread(daemon.wait) == 0
    daemon.check_clean()


async def test_who_watches_sees_it_drain_and_does_not_hold_it_up(daemon: DaemonProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = waiting_for(go)
    async with rank(daemon.address) as one:
        # It drains for as long as this compiles.
        running = await one.open(key_of(script))
        await running.until("send_graph")
        await running.upload(script)
        await running.until_state(pb.COMPILE_STATE_COMPILING)
        admin = admin_pb2_grpc.AdminServiceStub(one.channel)
        seen: list[bool] = []
        with contextlib.suppress(grpc.RpcError):  # the connection may be gone before the stream's own end is read
            async for message in admin.WatchStatus(admin_pb2.WatchStatusRequest(interval_seconds=0.1)):
                if not seen:
                    await admin.Shutdown(admin_pb2.ShutdownRequest())
                seen.append(message.status.draining)
                if seen[-1]:
                    go.touch()
        assert (await running.finish()).artifact
    assert not seen[0]
    assert seen[-1]
    assert not any(seen[:-1])
    assert await asyncio.to_thread(daemon.wait) == 0


async def test_a_client_that_stops_reading_harms_nobody(daemon: DaemonProcess) -> None:
    graph = json.dumps([["size", 12_000_000]]).encode()
    async with rank(daemon.address) as frozen, rank(daemon.address) as other:
        await other.compile(graph)
        stuck = await frozen.open(key_of(graph))
        await stuck.until("artifact")
        # The rest fills the windows of the connection and then waits.
        assert len((await other.fetch(key_of(graph))).artifact) == 12_000_000
        assert (await other.compile(b"[]")).artifact
        stuck.cancel()


async def test_a_second_signal_leaves_at_once(daemon: DaemonProcess, tmp_path: Path) -> None:
    script = waiting_for(tmp_path / "never")
    async with rank(daemon.address) as one:
        running = await one.open(key_of(script))
        await running.until("send_graph")
        await running.upload(script)
        await running.until_state(pb.COMPILE_STATE_COMPILING)
        children = psutil.Process(daemon.pid).children(recursive=True)
        daemon.process.send_signal(signal.SIGTERM)
        await until(lambda: daemon.status().draining, "it drains")
        assert await asyncio.to_thread(daemon.kill, signal.SIGTERM) == 128 + signal.SIGTERM
        await until(lambda: not [child for child in children if alive(child.pid)], "no worker outlives it")


async def test_a_daemon_killed_at_work_is_followed_by_one_that_serves(tmp_path: Path) -> None:
    script = json.dumps([["size", 100_000]]).encode()
    with running_daemon(tmp_path) as first:
        async with rank(first.address) as one:
            made = await one.compile(script)
        await asyncio.to_thread(first.kill)
        # The same paths: a stale socket, a scratch folder and a store that was not closed.
        await asyncio.to_thread(first.start)
        async with rank(first.address) as one:
            found = await one.fetch(key_of(script))
    assert (found.served, found.artifact) == (pb.SERVED_HIT, made.artifact)


def test_a_second_daemon_on_one_socket_leaves_the_first_alone(daemon: DaemonProcess, tmp_path: Path) -> None:
    second = DaemonProcess(tmp_path / "second", {"address": daemon.address})
    try:
        assert second.spawn().wait() == 3
        assert str(daemon.pid) in second.log()
        assert "inductord stop" in second.log()
    finally:
        second.close()
    assert daemon.healthy()


def test_a_second_daemon_on_one_store_leaves_the_first_alone(daemon: DaemonProcess, tmp_path: Path) -> None:
    second = DaemonProcess(tmp_path / "second", {"store_path": daemon.store})
    try:
        assert second.spawn().wait() == 4
        assert str(daemon.pid) in second.log()
        assert not Path(second.address.removeprefix("unix:")).exists()
    finally:
        second.close()
    assert daemon.healthy()


def test_a_taken_metrics_port_is_named(daemon: DaemonProcess, tmp_path: Path) -> None:
    taken = daemon.status().metrics_address
    second = DaemonProcess(tmp_path / "second", {"metrics_address": taken})
    try:
        assert second.spawn().wait() == 1
        assert taken in second.log()
        assert "metrics_address" in second.log()
    finally:
        second.close()


def test_nobody_needs_it_so_it_leaves(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(idle_exit_seconds=0.5)
    assert daemon.wait() == 0
    wait_until(lambda: "nobody used" in daemon.log(), "it says why")


async def test_a_client_that_waits_keeps_it(start_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    daemon = start_daemon(idle_exit_seconds=0.5)
    async with rank(daemon.address) as one:
        leading = await one.open("a" * 64)
        await leading.until("send_graph")
        joining = await one.open("a" * 64)
        # Ten heartbeats are two seconds.
        for _ in range(10):
            await joining.hear()
        assert daemon.process.poll() is None
        leading.cancel()
        joining.cancel()
    assert await asyncio.to_thread(daemon.wait) == 0


def test_it_starts_without_a_home(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon(environment={"HOME": None, "USER": None, "XDG_CONFIG_HOME": None})
    assert daemon.healthy()


def test_a_folder_without_execution_is_named(tmp_path: Path) -> None:
    mounted = tmp_path / "noexec"
    mounted.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", mounted], capture_output=True, text=True)
    needs(mount.returncode == 0, f"the right to mount a file system: {mount.stderr.strip()}")
    daemon = DaemonProcess(tmp_path, {"scratch": mounted / "scratch"})
    try:
        assert daemon.spawn().wait() == 1
        assert "noexec" in daemon.log()
        assert str(mounted / "scratch") in daemon.log()
        assert "INDUCTORD_SCRATCH" in daemon.log()
        # None configured: the first of the candidates is noexec, another one serves.
        other = DaemonProcess(tmp_path, {"scratch": ""}, {"INDUCTORD_SCRATCH": None, "TMPDIR": str(mounted)})
        try:
            other.start()
            assert other.stop() == 0
        finally:
            other.close()
    finally:
        daemon.close()
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.integration
def test_without_ray_the_local_pool_serves_and_says_so(start_daemon: Callable[..., DaemonProcess]) -> None:
    needs_module("ray")
    daemon = start_daemon(pool="ray://127.0.0.1:1")

    async def compile_one() -> bytes:
        async with rank(daemon.address) as one:
            return (await one.compile(b"[]")).artifact

    assert asyncio.run(compile_one())
    pool = daemon.status().pool
    assert pool.kind == "local"
    assert "Ray cannot be had, the local pool serves: no Ray answers at ray://127.0.0.1:1" in pool.note


def test_reflection_only_when_asked_for(start_daemon: Callable[..., DaemonProcess], daemon: DaemonProcess) -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    def services(of: DaemonProcess) -> list[str]:
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        with of.channel() as channel:
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            (answer,) = stub.ServerReflectionInfo(iter([request]))
        return [service.name for service in answer.list_services_response.service]

    assert "inductord.v1.CompilerService" in services(start_daemon(reflection=True))
    with pytest.raises(grpc.RpcError) as caught:
        services(daemon)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
