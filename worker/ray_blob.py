"""Bytes in Ray's object store that are read where they lie.

Ray copies a plain ``bytes`` at every read. A buffer that is pickled out of band it maps from shared memory instead, so an
artifact is not copied on a node that has it. This module unpickles nothing and the daemon never imports it.
"""

from pickle import PickleBuffer
from typing import Any


class Blob:
    """``data``: what it was made of, or after a journey a view of the object store's memory."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data).cast("B")

    def __reduce_ex__(self, protocol: Any) -> tuple[type["Blob"], tuple[PickleBuffer]]:
        return Blob, (PickleBuffer(self.data),)
