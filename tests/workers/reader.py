"""A driver on a node of a Ray cluster (``RAY_ADDRESS``) that reads an artifact as a daemon's bridge does, and prints which file
the bytes that it got are mapped from."""

import asyncio
import ctypes
from pathlib import Path

import ray

from inductord.worker.pool import Place
from inductord.worker.ray_blob import Blob
from inductord.worker.ray_transport import RayTransport
from inductord.worker.registry_messages import Produced

_SIZE = 1_500_000


class _Buffer(ctypes.Structure):
    """``Py_buffer`` of the C API; only its first field is read."""

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_byte * 256))


def address_of(view: memoryview) -> int:
    """Where the bytes lie. They may be read-only."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0)
    try:
        return int(buffer.address or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))


def file_of(address: int) -> str:
    """What the kernel has mapped there; empty for memory of the process itself."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, _, _, _, *file = line.split(maxsplit=5)
        start, end = (int(each, 16) for each in span.split("-"))
        if start <= address < end:
            return file[0] if file else ""
    return ""


async def read() -> memoryview:
    place = Place(ray.put(Blob(b"x" * _SIZE)), _SIZE)
    return await RayTransport(lambda: None).read(Produced("artifact", place, 0.0, {}, ""))


if __name__ == "__main__":
    ray.init(log_to_driver=False)
    view = asyncio.run(read())
    assert view == b"x" * _SIZE
    print(file_of(address_of(view)))
