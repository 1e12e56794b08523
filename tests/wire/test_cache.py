"""The daemon's side of PyTorch's remote caches: kept over a restart, bounded, refused with what is wrong."""

from collections.abc import Callable

import grpc
import pytest
from support.daemon import DaemonProcess
from support.pools import DEADLINE_S

from inductord.v1 import cache_pb2 as pb
from inductord.v1.cache_pb2_grpc import CacheServiceStub

pytestmark = pytest.mark.wire


def test_a_value_is_kept_over_a_restart_and_limits_are_said(start_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = start_daemon()
    with daemon.channel() as channel:
        stub = CacheServiceStub(channel)
        assert not stub.GetBlob(pb.GetBlobRequest(cache="pgo", key="job"), timeout=DEADLINE_S).HasField("value")
        for value in (b"first", b""):
            put = pb.PutBlobRequest(cache="pgo", key="job", value=value)
            assert stub.PutBlob(put, timeout=DEADLINE_S).kept
        wrong = {
            grpc.StatusCode.INVALID_ARGUMENT: [("", "job", b"x"), ("pgo", "", b"x"), ("c" * 65, "k", b"x")],
            grpc.StatusCode.RESOURCE_EXHAUSTED: [("pgo", "job", bytes((8 << 20) + 1))],
        }
        for code, puts in wrong.items():
            for cache, key, value in puts:
                with pytest.raises(grpc.RpcError) as refused:
                    stub.PutBlob(pb.PutBlobRequest(cache=cache, key=key, value=value), timeout=DEADLINE_S)
                assert refused.value.code() is code
    assert daemon.stop() == 0
    daemon.start()
    with daemon.channel() as channel:
        answer = CacheServiceStub(channel).GetBlob(pb.GetBlobRequest(cache="pgo", key="job"), timeout=DEADLINE_S)
    assert answer.HasField("value")
    assert answer.value == b""
