import asyncio
import socket
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductord.worker import framing

pytestmark = pytest.mark.unit


@given(st.lists(st.binary(max_size=2000), max_size=5))
def test_frames_come_back_as_sent_and_then_the_end(payloads: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for payload in payloads:
            framing.write_frame(ours, payload)
        ours.close()
        got = []
        while (frame := framing.read_frame(theirs)) is not None:
            got.append(bytes(frame))
    assert got == payloads


async def test_a_frame_larger_than_the_sockets_buffer_passes_both_ways() -> None:
    payload = bytes(range(256)) * 40_000
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        echo = threading.Thread(target=lambda: framing.write_frame(theirs, bytes(framing.read_frame(theirs) or b"")))
        echo.start()
        await framing.send_frame(ours, payload)
        assert await framing.receive_frame(ours, len(payload)) == payload
        await asyncio.to_thread(echo.join)


@pytest.mark.parametrize("cut", [1, 3, 4, 7])
def test_an_end_in_the_middle_of_a_frame_is_an_error_on_both_sides(cut: int) -> None:
    whole = struct.pack(">I", 4) + b"abcd"

    def peer() -> socket.socket:
        ours, theirs = socket.socketpair()
        with ours:
            ours.sendall(whole[:cut])
        return theirs

    with peer() as blocking, pytest.raises(framing.FrameError, match="closed"):
        framing.read_frame(blocking)
    with peer() as nonblocking:
        nonblocking.setblocking(False)
        with pytest.raises(framing.FrameError, match="closed"):
            asyncio.run(framing.receive_frame(nonblocking))


@pytest.mark.parametrize("length", [101, 2**32 - 1])
def test_a_length_over_the_limit_is_refused_before_anything_is_read(length: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(struct.pack(">I", length) + b"rest")
        with pytest.raises(framing.FrameError, match="over the limit of 100"):
            framing.read_frame(theirs, 100)
        assert theirs.recv(100) == b"rest"


def test_a_frame_at_the_limit_passes() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        framing.write_frame(ours, b"x" * 100)
        assert framing.read_frame(theirs, 100) == b"x" * 100
