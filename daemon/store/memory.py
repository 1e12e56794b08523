"""The memory tier: artifacts that were published or read lately, bounded by bytes. Pure."""

from collections import OrderedDict


class MemoryTier:
    """Blobs by SHA-256, the least recently used dropped first. It holds at most ``max_bytes``, see ``put``."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._blobs: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    @property
    def total_bytes(self) -> int:
        return self._bytes

    def get(self, sha256: bytes) -> bytes | None:
        data = self._blobs.get(sha256)
        if data is not None:
            self._blobs.move_to_end(sha256)
        return data

    def put(self, sha256: bytes, data: bytes, *, only_copy: bool = False) -> list[bytes]:
        """Keep ``data`` and return the digests that had to go.

        What is larger than the tier is not kept, unless it is the ``only_copy``: that one stays alone until the next
        comes, since somebody waits for it and it is nowhere else.
        """
        self.discard(sha256)
        if len(data) > self._max_bytes and not only_copy:
            return []
        self._blobs[sha256] = data
        self._bytes += len(data)
        dropped: list[bytes] = []
        while self._bytes > self._max_bytes and len(self._blobs) > 1:
            oldest = next(iter(self._blobs))
            self.discard(oldest)
            dropped.append(oldest)
        return dropped

    def discard(self, sha256: bytes) -> None:
        data = self._blobs.pop(sha256, None)
        if data is not None:
            self._bytes -= len(data)
