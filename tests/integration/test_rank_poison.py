"""A real worker computes the key of what it was sent by itself: nothing is stored under a key that is not its own."""

from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.rank import rank
from support.training import python, train

from inductord.compiler import payload
from inductord.v1 import compiler_pb2 as pb

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

OTHER = "ab" * 32


async def test_only_the_right_graph_is_compiled_for_a_key(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    key = train(tmp_path / "rank", python("graph_bytes.py", str(tmp_path)), None).result
    before = real_daemon.status()
    async with rank(real_daemon.address) as one:

        async def failure(name: str, under: str) -> pb.CompileFailure:
            answer = await one.compile((tmp_path / name).read_bytes(), key=under)
            assert answer.failure is not None, f"{name} was compiled"
            assert answer.artifact == b""
            return answer.failure

        async def refused(name: str, under: str) -> "pb.FailureKind":
            return (await failure(name, under)).kind

        assert await refused("right", OTHER) == pb.FAILURE_KIND_KEY_MISMATCH
        assert await refused("other settings", key) == pb.FAILURE_KIND_KEY_MISMATCH
        # Another PyTorch than the worker's may make bytes and settings that it cannot load; that is not what is said.
        other = await failure("other torch", OTHER)
        assert other.kind == pb.FAILURE_KIND_KEY_MISMATCH
        assert "torch: sent '1.0', here" in other.message
        for number, name in enumerate(["no graph", "half a graph", "no payload", "unknown settings"]):
            kind = await refused(name, f"{number:064x}")
            assert kind in (pb.FAILURE_KIND_UNLOADABLE, pb.FAILURE_KIND_COMPILE_ERROR), name

        states = await one.stub.Lookup(pb.LookupRequest(keys=[key, OTHER]))
        assert list(states.states) == [pb.KEY_STATE_ABSENT] * 2
        assert real_daemon.status().store.entries == before.store.entries

        # A key that somebody else misused is not spoiled, and the worker that refused still works.
        answer = await one.compile((tmp_path / "right").read_bytes(), key=key)
    assert answer.failure is None
    assert payload.unpack_artifact(answer.artifact, key).libraries
    assert real_daemon.status().pool.crashes == before.pool.crashes
