"""Bundles: sealed objects in one file, to be carried where a shared store does not reach. Blocking.

A tar file (ustar), in this order: ``manifest.json``, which lists key, size and SHA-256 of each object; ``manifest.sig``,
its signer and HMAC-SHA256, absent when nobody signed; then ``objects/KEY``, each a sealed object (``sealed.proto``).
Written and read one object at a time.

What is read may come from anybody. Names in it are compared and never opened: nothing is unpacked into a folder. The
manifest is verified before anything behind it is looked at, and each object by itself.
"""

import dataclasses
import enum
import io
import json
import os
import re
import secrets
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from inductord import __version__
from inductord.daemon.shared.keys import Keyring
from inductord.daemon.shared.sealed import MAX_OVERHEAD_BYTES, Refusal, Refused, Unsealed, seal, unseal
from inductord.v1.admin_pb2 import Entry
from inductord.v1.sealed_pb2 import SEALED_CONTENT_ARTIFACT, SEALED_CONTENT_GRAPH, SealedContent

FORMAT = 1
MAX_OBJECTS = 100_000
MAX_MANIFEST_BYTES = 32 << 20
# What a ustar header can say without tricks; a file system need not be asked to seek beyond.
_MAX_MEMBER_BYTES = 8 << 30
_PURPOSE = b"inductord bundle manifest"
_MANIFEST, _SIGNATURE, _OBJECTS = "manifest.json", "manifest.sig", "objects/"
_KEY = re.compile(r"[0-9a-f]{64}")
_CONTENTS = {"artifacts": SEALED_CONTENT_ARTIFACT, "graphs": SEALED_CONTENT_GRAPH}
# What a tar file may hold that is skipped as a whole. All else, such as long names, makes tarfile read before we can look.
_TYPES = frozenset(
    {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE}
    | {tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE}
)


class Misplaced(enum.StrEnum):
    """Why a member of the file is not taken, whatever it holds. Closed."""

    # Also every name that leads somewhere: ``..``, an absolute one, a folder.
    NOT_LISTED = "not_listed"
    # A link, a device, a folder.
    NOT_A_FILE = "not_a_file"
    TWICE = "twice"


class BundleRefused(Exception):
    """The file is no bundle, or not one that may be used. The message is for people."""

    def __init__(self, reason: Refusal, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """An object as the manifest lists it. ``size`` in bytes and ``sha256`` in hex digits, of the content."""

    key: str
    size: int
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One member of the file: an object with its sealed bytes, or why it is none. ``name`` is cut to 100 characters."""

    name: str
    listed: Listed | None
    unsealed: Unsealed | None
    sealed: bytes
    refusal: Refusal | Misplaced | None


# Writing


def write_bundle(
    path: Path,
    content: "SealedContent",
    listed: Sequence[Listed],
    read: Callable[[str], tuple[Entry, bytes] | None],
    keys: Keyring | None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """Write the objects that ``read`` gives for their keys, signed if there are keys. Returns the keys of those that it
    did not give, or no longer as they are listed. The file appears whole or not at all.

    Raises:
        OSError: it cannot be written.
        ValueError: more objects than a bundle holds.
    """
    if len(listed) > MAX_OBJECTS:
        raise ValueError(f"{len(listed)} objects; a bundle holds {MAX_OBJECTS}")
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with tarfile.open(part, "x:", format=tarfile.USTAR_FORMAT) as tar:
            _add_manifest(tar, content, listed, keys)
            missing = []
            for number, item in enumerate(listed, start=1):
                found = read(item.key)
                if found is None or found[0].sha256.hex() != item.sha256:
                    missing.append(item.key)
                else:
                    _add(tar, _OBJECTS + item.key, seal(found[0], "", content, keys) + found[1])
                progress(number)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return missing


def _add_manifest(
    tar: tarfile.TarFile, content: "SealedContent", listed: Sequence[Listed], keys: Keyring | None
) -> None:
    (name,) = (name for name, value in _CONTENTS.items() if value == content)
    manifest = {
        "format": FORMAT,
        "content": name,
        "release": __version__,
        "created_unix": int(time.time()),
        "objects": [dataclasses.asdict(item) for item in listed],
    }
    text = json.dumps(manifest, indent=1).encode()
    _add(tar, _MANIFEST, text)
    if keys is not None:
        _add(tar, _SIGNATURE, f"{keys.signer.hex()} {keys.sign(_PURPOSE, text).hex()}\n".encode())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), int(time.time()), 0o600
    tar.addfile(info, io.BytesIO(data))


# Reading


class _PlainInfo(tarfile.TarInfo):
    """Refuses headers that make tarfile read on, recurse or go back before anybody could look at them."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type not in _TYPES or not 0 <= info.size <= _MAX_MEMBER_BYTES:
            raise BundleRefused(Refusal.MALFORMED, "it holds a header that no bundle has")
        return info


class BundleReader:
    """A bundle whose manifest is what it should be. ``listed``: its objects by key.

    Raises:
        BundleRefused: it is no bundle, not signed by one of the keys, or of other content.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path, content: "SealedContent", keys: Keyring | None, max_bytes: int) -> None:
        self._content = content
        self._keys = keys
        self._max_bytes = max_bytes
        self._file: BinaryIO = path.open("rb")
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self._tar = _translated(lambda: tarfile.TarFile(fileobj=self._file, tarinfo=_PlainInfo))
            self._ahead: tarfile.TarInfo | None = None
            self._seen: set[str] = set()
            self.listed = self._read_manifest()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._tar.close()
        self._file.close()

    @property
    def absent(self) -> int:
        """How many listed objects did not come so far."""
        return len(self.listed) - len(self._seen)

    def members(self) -> Iterator[Member]:
        """Everything behind the manifest, one at a time.

        Raises:
            BundleRefused: the file cannot be read on. What came before stands.
        """
        # Each good object once, and as many bad ones: a file of nothing but empty members has an end too.
        for _ in range(2 * len(self.listed) + 16):
            info = self._next()
            if info is None:
                return
            key = info.name.removeprefix(_OBJECTS) if info.name.startswith(_OBJECTS) else ""
            listed = self.listed.get(key)
            if listed is None:
                yield Member(info.name[:100], None, None, b"", Misplaced.NOT_LISTED)
            elif info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                yield Member(info.name[:100], listed, None, b"", Misplaced.NOT_A_FILE)
            elif key in self._seen:
                yield Member(info.name[:100], listed, None, b"", Misplaced.TWICE)
            else:
                self._seen.add(key)
                yield self._object(info, listed)
        raise BundleRefused(Refusal.MALFORMED, "it holds far more than its manifest lists")

    def _object(self, info: tarfile.TarInfo, listed: Listed) -> Member:
        if listed.size > self._max_bytes:
            return Member(info.name, listed, None, b"", Refusal.TOO_LARGE)
        if not listed.size < info.size <= listed.size + MAX_OVERHEAD_BYTES:
            return Member(info.name, listed, None, b"", Refusal.WRONG_SIZE)
        sealed = self._read(info)
        try:
            unsealed = unseal(sealed, self._keys, key=listed.key, tenant="", content=self._content)
        except Refused as refused:
            return Member(info.name, listed, None, b"", refused.reason)
        if unsealed.entry.sha256.hex() != listed.sha256:
            return Member(info.name, listed, None, b"", Refusal.WRONG_DIGEST)
        return Member(info.name, listed, unsealed, sealed, None)

    def _read_manifest(self) -> dict[str, Listed]:
        text = self._named(_MANIFEST, MAX_MANIFEST_BYTES)
        if text is None:
            raise BundleRefused(Refusal.MALFORMED, "it does not begin with a manifest")
        signature = self._named(_SIGNATURE, 1024)
        if self._keys is not None:
            _verify(self._keys, text, signature)
        try:
            return _parse_manifest(json.loads(text), self._content)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BundleRefused(Refusal.MALFORMED, f"its manifest cannot be used: {error}") from error

    def _named(self, name: str, most: int) -> bytes | None:
        """The next member, if it has this name."""
        info = self._next()
        if info is None or info.name != name or not info.isreg():
            self._ahead = info
            return None
        if info.size > most:
            raise BundleRefused(Refusal.TOO_LARGE, f"its {name} has {info.size} bytes")
        return self._read(info)

    def _next(self) -> tarfile.TarInfo | None:
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return ahead
        info: tarfile.TarInfo | None = _translated(self._tar.next)
        # tarfile remembers all members, which nobody here asks for again.
        self._tar.members = []
        return info

    def _read(self, info: tarfile.TarInfo) -> bytes:
        # Not more than there is, whatever the header claims.
        if info.offset_data + info.size > self._size:
            raise BundleRefused(Refusal.MALFORMED, "it ends before its time")
        self._file.seek(info.offset_data)
        data = self._file.read(info.size)
        if len(data) != info.size:
            raise BundleRefused(Refusal.MALFORMED, "it ends before its time")
        return data


def _translated(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise BundleRefused(Refusal.MALFORMED, f"it is no tar file, or damaged: {error}") from error


def _verify(keys: Keyring, text: bytes, signature: bytes | None) -> None:
    if signature is None:
        raise BundleRefused(Refusal.UNSIGNED, "nobody signed it; --unsigned takes it all the same")
    try:
        signer, mac = (bytes.fromhex(word) for word in signature.decode("ascii").split())
    except ValueError:
        raise BundleRefused(Refusal.MALFORMED, "its signature cannot be read") from None
    if not keys.knows(signer):
        raise BundleRefused(Refusal.UNKNOWN_KEY, f"it was signed with the key {signer.hex()}, which is none of ours")
    if not keys.verifies(signer, mac, _PURPOSE, text):
        raise BundleRefused(Refusal.BAD_SIGNATURE, "its signature does not match")


def _parse_manifest(manifest: Any, content: "SealedContent") -> dict[str, Listed]:
    if manifest["format"] != FORMAT:
        raise BundleRefused(
            Refusal.OTHER_FORMAT, f"it has format {manifest['format']!r:.20}, this release reads {FORMAT}"
        )
    if _CONTENTS.get(manifest["content"]) != content:
        raise BundleRefused(Refusal.OTHER_CONTENT, f"it holds {manifest['content']!r:.40}")
    objects = manifest["objects"]
    if len(objects) > MAX_OBJECTS:
        raise BundleRefused(Refusal.TOO_LARGE, f"it lists {len(objects)} objects; {MAX_OBJECTS} are allowed")
    listed = [Listed(str(item["key"]), int(item["size"]), str(item["sha256"])) for item in objects]
    for item in listed:
        if not (_KEY.fullmatch(item.key) and _KEY.fullmatch(item.sha256) and item.size > 0):
            raise ValueError("an object in it has no proper key, size or digest")
    return {item.key: item for item in listed}
