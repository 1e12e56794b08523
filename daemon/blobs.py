"""Graphs and artifacts on the wire: a header with size and SHA-256, then chunks.

Pure but for the hashing of large blobs, which goes to a thread. The bytes are opaque here.
"""

import asyncio
import dataclasses
import hashlib

from inductord.daemon.errors import InvalidRequest, OverLimit
from inductord.v1.compiler_pb2 import BlobHeader, CompileResponse

CHUNK_BYTES = 1 << 20
MAX_CHUNK_BYTES = 4 << 20
"""A client may send larger chunks than we do, within the limit of messages."""

_DIGEST_BYTES = 32
# Below this, hashing takes less than handing it to a thread.
_HASH_IN_THREAD_BYTES = 256 * 1024


async def sha256(data: bytes) -> bytes:
    """The digest, made without blocking the event loop."""
    if len(data) < _HASH_IN_THREAD_BYTES:
        return hashlib.sha256(data).digest()
    return await asyncio.to_thread(lambda: hashlib.sha256(data).digest())


@dataclasses.dataclass(frozen=True, slots=True)
class Lent:
    """An artifact that a client may read by itself, as a file at ``path``."""

    header: BlobHeader
    compile_seconds: float
    path: str


class Outgoing:
    """An artifact ready to be sent to any number of clients, who share its serialised chunks."""

    __slots__ = ("__weakref__", "_chunks", "_data", "compile_seconds", "header")

    def __init__(self, data: bytes, digest: bytes, compile_seconds: float) -> None:
        self.header = BlobHeader(size=len(data), sha256=digest)
        self.compile_seconds = compile_seconds
        self._data = data
        self._chunks: list[bytes | None] = [None] * -(-len(data) // CHUNK_BYTES)

    def __len__(self) -> int:
        """Number of chunks."""
        return len(self._chunks)

    def chunk(self, index: int) -> bytes:
        """A serialised ``CompileResponse`` with one chunk. Made at first use: the first of 64 joiners pays for all."""
        made = self._chunks[index]
        if made is None:
            start = index * CHUNK_BYTES
            made = _serialised_chunk(memoryview(self._data)[start : start + CHUNK_BYTES])
            self._chunks[index] = made
        return made


# One byte, as the field's number is below 16.
_CHUNK_TAG = CompileResponse(chunk=b"").SerializeToString()[:1]


def _serialised_chunk(chunk: memoryview) -> bytes:
    """What ``CompileResponse(chunk=chunk).SerializeToString()`` gives, with one copy instead of three.

    Protobuf takes 2 ms for a MiB of bytes, which is most of what a hit costs the daemon.
    """
    length = bytearray()
    rest = len(chunk)
    while rest > 0x7F:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    return b"".join((_CHUNK_TAG, length, chunk))


def check_header(header: BlobHeader, max_bytes: int) -> None:
    """Raises:
    InvalidRequest: for an empty blob or a digest that is none.
    OverLimit: for a blob over ``max_bytes``.
    """
    if header.size == 0:
        raise InvalidRequest("the graph is empty.")
    if len(header.sha256) != _DIGEST_BYTES:
        raise InvalidRequest(f"a SHA-256 has {_DIGEST_BYTES} bytes, not {len(header.sha256)}.")
    if header.size > max_bytes:
        raise OverLimit(
            f"the graph has {header.size} bytes and this daemon takes {max_bytes}. Raise max_graph_bytes to take it."
        )


class Incoming:
    """A blob that is being received. Holds no more than what came."""

    def __init__(self, header: BlobHeader) -> None:
        self._header = header
        self._chunks: list[bytes] = []
        self._received = 0

    @property
    def complete(self) -> bool:
        """Whether all announced bytes are here."""
        return self._received == self._header.size

    def add(self, chunk: bytes) -> None:
        """Take the next chunk.

        Raises:
            InvalidRequest: for an empty or oversized chunk, or more bytes than announced.
        """
        if not chunk:
            raise InvalidRequest("a chunk is empty.")
        if len(chunk) > MAX_CHUNK_BYTES:
            raise InvalidRequest(f"a chunk has {len(chunk)} bytes; {MAX_CHUNK_BYTES} are allowed.")
        if self._received + len(chunk) > self._header.size:
            raise InvalidRequest(f"more bytes came than the {self._header.size} that the header announced.")
        self._chunks.append(chunk)
        self._received += len(chunk)

    async def finish(self) -> bytes:
        """The whole blob.

        Raises:
            InvalidRequest: when its digest is not the announced one.
        """
        data = b"".join(self._chunks)
        self._chunks.clear()
        if await sha256(data) != self._header.sha256:
            raise InvalidRequest("the graph's SHA-256 is not the announced one: it was damaged on its way.")
        return data
