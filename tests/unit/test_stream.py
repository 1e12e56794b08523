"""A client that falls silent: bounded, whatever it was asked."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc.aio
import pytest

from inductord.daemon.blobs import Outgoing
from inductord.daemon.errors import GaveUp, InvalidRequest
from inductord.daemon.service.stream import CompileStream, GraphUnavailable
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.unit


class Silent:
    """Takes no message: stands for a connection whose windows are full, which no test could wait for."""

    async def write(self, message: object) -> None:
        await asyncio.Event().wait()


def stream(*messages: pb.CompileRequest, ends: bool = False) -> CompileStream:
    """A stream of a client that says this, then ends its side or says nothing."""

    async def requests() -> AsyncIterator[pb.CompileRequest]:
        for message in messages:
            yield message
        if not ends:
            await asyncio.Event().wait()

    return CompileStream(requests(), cast("grpc.aio.ServicerContext[Any, Any]", Silent()), stall_seconds=0.05)


async def test_a_client_that_says_nothing_is_given_up() -> None:
    with pytest.raises(GaveUp, match="nothing came"):
        await stream().opening()
    with pytest.raises(GaveUp, match="nothing came"):
        await stream().graph_header()
    with pytest.raises(GaveUp, match="nothing came"):
        await stream(pb.CompileRequest(chunk=b"x")).graph(pb.BlobHeader(size=2, sha256=b"x" * 32))


async def test_a_client_that_reads_nothing_is_given_up() -> None:
    with pytest.raises(GaveUp, match="read nothing"):
        await stream().ask_graph()
    with pytest.raises(GaveUp, match="read nothing"):
        await stream().artifact(Outgoing(b"x", b"", 0.0), pb.SERVED_HIT)


async def test_a_client_that_ends_too_early_is_told_so() -> None:
    with pytest.raises(InvalidRequest, match="ended"):
        await stream(ends=True).opening()
    with pytest.raises(InvalidRequest, match="ended"):
        await stream(pb.CompileRequest(chunk=b"x"), ends=True).graph(pb.BlobHeader(size=2, sha256=b"x" * 32))


async def test_a_refusal_carries_its_reason() -> None:
    with pytest.raises(GraphUnavailable, match="no pickle"):
        await stream(pb.CompileRequest(refused=pb.GraphRefused(message="no pickle"))).graph_header()
