"""The HMAC keys of shared stores and bundles: the first signs, all verify, so that keys can be changed without a gap.

A file has one key a line, 64 hex digits; what follows ``#`` is for people. It is read again when it changes. Keys never
appear in a log, an error or a representation; an object names the key that signed it by an identity that tells nothing.
"""

import contextlib
import dataclasses
import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from inductord.daemon.auth.files import Watched
from inductord.daemon.shared.errors import KeysUnusable

_log = logging.getLogger("inductord.shared")

KEY_BYTES = 32
ID_BYTES = 8
MAC_BYTES = 32
UNSIGNED = bytes(ID_BYTES)
"""The identity that stands in what nobody signed."""

_MAX_KEYS = 16
_MAX_FILE_BYTES = 64 * 1024
_ID_TEXT = b"inductord key identity"


@dataclasses.dataclass(frozen=True, slots=True)
class Keyring:
    """``keys``: 32 bytes each, the signing one first."""

    keys: tuple[bytes, ...] = dataclasses.field(repr=False)

    def sign(self, *parts: bytes) -> bytes:
        """HMAC-SHA256 (RFC 2104) of the parts, each with its length, so that no two lists of parts sign alike."""
        return _mac(self.keys[0], parts)

    @property
    def signer(self) -> bytes:
        """Identity of the key that signs, 8 bytes."""
        return _identity(self.keys[0])

    def knows(self, signer: bytes) -> bool:
        """Whether one of the keys has this identity."""
        return any(_identity(key) == signer for key in self.keys)

    def verifies(self, signer: bytes, mac: bytes, *parts: bytes) -> bool:
        """Whether the key of this identity signed these parts."""
        return any(
            hmac.compare_digest(_mac(key, parts), mac)
            for key in self.keys
            if hmac.compare_digest(_identity(key), signer)
        )


def _mac(key: bytes, parts: tuple[bytes, ...]) -> bytes:
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        mac.update(len(part).to_bytes(8, "big"))
        mac.update(part)
    return mac.digest()


def _identity(key: bytes) -> bytes:
    return hmac.digest(key, _ID_TEXT, "sha256")[:ID_BYTES]


def parse(text: str, source: Path) -> Keyring:
    """The keys in the text of a file.

    Raises:
        KeysUnusable: there are none, too many, or a line is no key. It names the line, not what stands there.
    """
    keys: list[bytes] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if not word:
            continue
        try:
            key = bytes.fromhex(word)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise KeysUnusable(f"{source}, line {number}: a key has {2 * KEY_BYTES} hex digits. {_MAKE}")
        keys.append(key)
    if not 1 <= len(keys) <= _MAX_KEYS:
        raise KeysUnusable(f"{source} has {len(keys)} keys; 1 to {_MAX_KEYS} are allowed. {_MAKE}")
    return Keyring(tuple(keys))


_MAKE = "`inductord store new-key FILE` makes one."


def read(path: Path) -> Keyring:
    """The keys of a file. Warns when every user can read it.

    Raises:
        KeysUnusable: it cannot be read or used.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o004:
                _log.warning("every user can read the keys in %s, and who has them can publish code: chmod 600", path)
            content = file.read(_MAX_FILE_BYTES + 1)
        text = content.decode("ascii")
    except OSError as error:
        raise KeysUnusable(f"the keys in {path} cannot be read: {error.strerror}. {_MAKE}") from error
    except UnicodeDecodeError:
        # Without its cause: that holds what it could not decode.
        raise KeysUnusable(f"{path} is no file of keys. {_MAKE}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise KeysUnusable(f"{path} is larger than {_MAX_FILE_BYTES} bytes: it is no file of keys.")
    return parse(text, path)


class KeyFile:
    """Keys that follow their file. Any thread may ask. ``failed`` is told of a changed file that cannot be used; the keys
    from before then stay in use.

    Raises:
        KeysUnusable: when made, for a file that cannot be used.
    """

    def __init__(self, path: Path, failed: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = Watched([path], lambda: read(path), failed, clock, KeysUnusable)

    def current(self) -> Keyring:
        """The keys as the file has them now."""
        return self._keys.current()


def add_new(path: Path, *, standby: bool) -> Keyring:
    """Put a new key into a file, which is made for its owner alone if it is not there. Returns all keys.

    ``standby``: as the last, so that it verifies and does not sign yet. Published atomically: a reader sees the old
    keys or the new ones.

    Raises:
        KeysUnusable: the file that is there cannot be used, or the new one cannot be written.
    """
    kept = read(path).keys if path.exists() else ()
    if len(kept) >= _MAX_KEYS:
        raise KeysUnusable(f"{path} has {len(kept)} keys already. Remove those that nothing is signed with any more.")
    made = secrets.token_bytes(KEY_BYTES)
    keys = (*kept, made) if standby else (made, *kept)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    lines = ["# HMAC keys of inductord, one a line: the first signs, all verify."]
    lines += (key.hex() + (f"  # made {today}" if key is made else "") for key in keys)
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise KeysUnusable(f"the keys cannot be written to {path}: {error.strerror}.") from error
    return Keyring(keys)
