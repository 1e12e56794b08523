"""One artifact or graph with its signed header, as bytes. Pure. The layout stands in ``sealed.proto``.

What comes from outside is refused for one of a closed set of reasons, the signature first: nothing of an object that is
not ours is decoded.
"""

import dataclasses
import enum
import hashlib
import struct

from google.protobuf.message import DecodeError

from inductord.daemon.entries import entry_of
from inductord.daemon.shared.keys import MAC_BYTES, UNSIGNED, Keyring
from inductord.daemon.store.records import Meta, Record
from inductord.v1.admin_pb2 import Entry
from inductord.v1.compiler_pb2 import GraphKind
from inductord.v1.sealed_pb2 import SealedContent, SealedHeader

FORMAT = 1
MAX_HEADER_BYTES = 256 * 1024
_MAGIC = b"inductS1"
_PURPOSE = b"inductord sealed object"
_PREFIX = struct.Struct(f">8s8s{MAC_BYTES}sI")
MAX_OVERHEAD_BYTES = _PREFIX.size + MAX_HEADER_BYTES
"""By how much a sealed object is larger than its content, at most."""


class Refusal(enum.StrEnum):
    """Why an object from outside is not taken. Closed: also a metric label."""

    MALFORMED = "malformed"
    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown_key"
    BAD_SIGNATURE = "bad_signature"
    OTHER_FORMAT = "other_format"
    OTHER_CONTENT = "other_content"
    OTHER_KEY = "other_key"
    OTHER_TENANT = "other_tenant"
    WRONG_SIZE = "wrong_size"
    TOO_LARGE = "too_large"
    WRONG_DIGEST = "wrong_digest"


class Refused(Exception):
    """An object is not taken. The message is for people."""

    def __init__(self, reason: Refusal, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Unsealed:
    """An object that is what it should be."""

    entry: Entry
    content: bytes

    def meta(self) -> Meta:
        """What a store keeps beside the bytes."""
        entry = self.entry
        return Meta(
            kind=entry.kind if entry.kind in GraphKind.values() else GraphKind.GRAPH_KIND_UNSPECIFIED,
            compile_seconds=entry.compile_seconds,
            toolchain=entry.toolchain,
            key_parts=dict(entry.key_parts),
            nodes=entry.nodes,
            job=entry.job,
        )


def artifact_entry(key: str, size: int, sha256: bytes, meta: Meta, created: float) -> Entry:
    """What the header of an artifact says; ``created`` in Unix seconds."""
    return entry_of(Record(key, size, sha256, created, 0.0, 0, meta), meta.key_parts)


def seal(entry: Entry, tenant: str, content: "SealedContent", keys: Keyring | None) -> bytes:
    """What has to stand before the content. Without keys it is not signed.

    Raises:
        ValueError: the header would be too large; what it is made of is bounded at the door.
    """
    header = SealedHeader(format=FORMAT, content=content, tenant=tenant, entry=entry).SerializeToString(
        deterministic=True
    )
    if len(header) > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {len(header)} bytes")
    length = len(header).to_bytes(4, "big")
    signer, mac = UNSIGNED, bytes(MAC_BYTES)
    if keys is not None:
        signer = keys.signer
        mac = keys.sign(_PURPOSE, _MAGIC, signer, length, header)
    return _PREFIX.pack(_MAGIC, signer, mac, len(header)) + header


def unseal(data: bytes, keys: Keyring | None, *, key: str, tenant: str, content: "SealedContent") -> Unsealed:
    """The content of an object that was asked for under ``key`` and ``tenant``. Without keys no signature is asked for.

    Raises:
        Refused: it is not what it should be.
    """
    header, body = _split(data, keys)
    entry = header.entry
    if header.format != FORMAT:
        raise Refused(Refusal.OTHER_FORMAT, f"it has format {header.format}, this release reads {FORMAT}")
    if header.content != content:
        raise Refused(Refusal.OTHER_CONTENT, f"it holds {SealedContent.Name(header.content)}")
    if header.tenant != tenant:
        raise Refused(Refusal.OTHER_TENANT, "it is another tenant's")
    if entry.key != key:
        raise Refused(Refusal.OTHER_KEY, "it is that of another key")
    if entry.size != len(body):
        raise Refused(Refusal.WRONG_SIZE, f"it has {len(body)} bytes instead of {entry.size}")
    if hashlib.sha256(body).digest() != entry.sha256:
        raise Refused(Refusal.WRONG_DIGEST, "its digest does not match")
    return Unsealed(entry, bytes(body))


def _split(data: bytes, keys: Keyring | None) -> tuple[SealedHeader, memoryview]:
    if len(data) < _PREFIX.size:
        raise Refused(Refusal.MALFORMED, f"it has {len(data)} bytes, which is less than its prefix")
    magic, signer, mac, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise Refused(Refusal.MALFORMED, "it is no sealed object")
    if length > MAX_HEADER_BYTES or _PREFIX.size + length > len(data):
        raise Refused(Refusal.MALFORMED, f"its header cannot have {length} bytes")
    header = data[_PREFIX.size : _PREFIX.size + length]
    if keys is not None:
        if signer == UNSIGNED:
            raise Refused(Refusal.UNSIGNED, "nobody signed it")
        if not keys.knows(signer):
            raise Refused(Refusal.UNKNOWN_KEY, f"it was signed with the key {signer.hex()}, which is none of ours")
        if not keys.verifies(signer, mac, _PURPOSE, magic, signer, length.to_bytes(4, "big"), header):
            raise Refused(Refusal.BAD_SIGNATURE, "its signature does not match")
    try:
        return SealedHeader.FromString(header), memoryview(data)[_PREFIX.size + length :]
    except DecodeError:
        raise Refused(Refusal.MALFORMED, "its header cannot be decoded") from None
