"""What a rank makes of bytes that are not what was announced, or stop coming: it takes none of them, whoever sent them."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from inductord.compiler.client import Client, Received
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.compiler.versions import this_version
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.compiler_pb2_grpc import CompilerServiceServicer, add_CompilerServiceServicer_to_server

pytestmark = pytest.mark.wire

ARTIFACT = b"artifact " * 1000


class Damaging(CompilerServiceServicer):
    """Announces ``ARTIFACT`` and sends ``chunks``. ``stalls``: then it is silent until it is released."""

    def __init__(self, chunks: list[bytes], heartbeat: float = 60, *, stalls: bool = False) -> None:
        self._chunks = chunks
        self._heartbeat = heartbeat
        self.released = threading.Event()
        if not stalls:
            self.released.set()

    def GetCapabilities(self, request: pb.GetCapabilitiesRequest, context: Any) -> pb.GetCapabilitiesResponse:
        return pb.GetCapabilitiesResponse(daemon=this_version(), heartbeat_seconds=self._heartbeat)

    def Compile(self, requests: Iterator[pb.CompileRequest], context: Any) -> Iterator[pb.CompileResponse]:
        next(requests)
        blob = pb.BlobHeader(size=len(ARTIFACT), sha256=hashlib.sha256(ARTIFACT).digest())
        yield pb.CompileResponse(artifact=pb.Artifact(blob=blob, served=pb.SERVED_HIT))
        for chunk in self._chunks:
            yield pb.CompileResponse(chunk=chunk)
        self.released.wait()


def fetched(folder: Path, damaging: Damaging, max_wait: float = 60) -> Received:
    address = f"unix:{folder / 'd.sock'}"
    server = grpc.server(ThreadPoolExecutor(4))
    add_CompilerServiceServicer_to_server(damaging, server)
    server.add_insecure_port(address)
    server.start()
    client = Client(address)
    try:
        return client.compile(pb.OpenCompile(key="0" * 64), lambda: b"", lambda _: None, max_wait=max_wait)
    finally:
        client.close()
        damaging.released.set()
        server.stop(None).wait()


def test_damaged_bytes_are_not_taken(tmp_path: Path) -> None:
    assert fetched(tmp_path, Damaging([ARTIFACT[:100], ARTIFACT[100:]])).artifact == ARTIFACT
    for chunks in ([ARTIFACT[:-1] + b"?"], [ARTIFACT + b"more"], [ARTIFACT[:100], b""]):
        with pytest.raises(Unavailable) as caught:
            fetched(tmp_path, Damaging(chunks))
        assert caught.value.reason is Fallback.ARTIFACT_CORRUPT


@pytest.mark.parametrize(
    ("heartbeat", "max_wait", "reason"), [(60, 0.2, Fallback.WAIT_EXCEEDED), (0.04, 60, Fallback.DAEMON_SILENT)]
)
def test_bytes_that_stop_coming_are_not_waited_for(
    tmp_path: Path, heartbeat: float, max_wait: float, reason: Fallback
) -> None:
    with pytest.raises(Unavailable) as caught:
        fetched(tmp_path, Damaging([ARTIFACT[:100]], heartbeat, stalls=True), max_wait)
    assert caught.value.reason is reason
