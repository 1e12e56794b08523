"""Frames between the daemon and a worker process: a 4-byte big-endian length, then that many bytes.

Both ends use this module: a worker with blocking calls, the daemon on its event loop. It knows nothing of what is in a
frame, and it must not allocate for a length that is over the limit.
"""

import asyncio
import socket
import struct

MAX_FRAME_BYTES = 2**31 - 1
"""The most that one protobuf message can be."""

_LENGTH = struct.Struct(">I")


class FrameError(ConnectionError):
    """The peer broke the framing: a length over the limit, or an end in the middle of a frame."""


def _checked_length(header: bytes | bytearray, limit: int) -> int:
    (length,) = _LENGTH.unpack(header)
    if length > limit:
        raise FrameError(f"a frame of {length} bytes is over the limit of {limit}")
    return int(length)


def _header(payload: bytes | memoryview) -> bytes:
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(payload)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(payload))


def write_frame(sock: socket.socket, payload: bytes) -> None:
    """Send one frame on a blocking socket.

    Raises:
        FrameError: ``payload`` is over ``MAX_FRAME_BYTES``.
        OSError: the peer is gone.
    """
    sock.sendall(_header(payload))
    sock.sendall(payload)


def read_frame(sock: socket.socket, limit: int = MAX_FRAME_BYTES) -> bytearray | None:
    """The next frame from a blocking socket, or None when the peer closed it between frames.

    Raises:
        FrameError: the frame is over ``limit`` bytes, or the peer closed in the middle of it.
        OSError: the connection broke.
    """
    header = _read(sock, _LENGTH.size)
    if not header:
        return None
    if len(header) < _LENGTH.size:
        raise FrameError("the peer closed in the middle of a frame's length")
    length = _checked_length(header, limit)
    payload = _read(sock, length)
    if len(payload) < length:
        raise FrameError(f"the peer closed after {len(payload)} of {length} bytes")
    return payload


def _read(sock: socket.socket, size: int) -> bytearray:
    """``size`` bytes, or fewer when the peer closed."""
    buffer = bytearray(size)
    view, have = memoryview(buffer), 0
    while have < size:
        got = sock.recv_into(view[have:])
        if not got:
            view.release()
            del buffer[have:]
            break
        have += got
    return buffer


async def send_frame(sock: socket.socket, payload: bytes | memoryview) -> None:
    """As ``write_frame``, on the running loop; ``sock`` is non-blocking."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, _header(payload))
    await loop.sock_sendall(sock, payload)


async def receive_frame(sock: socket.socket, limit: int = MAX_FRAME_BYTES) -> bytearray | None:
    """As ``read_frame``, on the running loop; ``sock`` is non-blocking."""
    header = await _receive(sock, _LENGTH.size)
    if not header:
        return None
    if len(header) < _LENGTH.size:
        raise FrameError("the peer closed in the middle of a frame's length")
    length = _checked_length(header, limit)
    payload = await _receive(sock, length)
    if len(payload) < length:
        raise FrameError(f"the peer closed after {len(payload)} of {length} bytes")
    return payload


async def _receive(sock: socket.socket, size: int) -> bytearray:
    loop = asyncio.get_running_loop()
    buffer = bytearray(size)
    view, have = memoryview(buffer), 0
    while have < size:
        got = await loop.sock_recv_into(sock, view[have:])
        if not got:
            view.release()
            del buffer[have:]
            break
        have += got
    return buffer
