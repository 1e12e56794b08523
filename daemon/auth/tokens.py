"""Tokens: random, kept by their SHA-256 alone, each in the name of one tenant.

The file has a line for each: the tenant, then the digest in hex. A plain digest is enough because a token has 256 random
bits: there is nothing to guess from. Empty lines and what follows ``#`` are for people.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from inductord.daemon.auth.files import AuthError, Watched
from inductord.daemon.tenancy import is_tenant

_PREFIX = "ind_"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_BYTES = 4 << 20


def new_token() -> str:
    """A token that nobody has. Its prefix lets scanners for leaked secrets find it."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def parse(text: str) -> dict[str, str]:
    """Tenants by digest.

    Raises:
        ValueError: for a line that is none, or a digest in two names. The message has its number, not its text.
    """
    tenants: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not is_tenant(words[0]) or not _DIGEST.fullmatch(words[1]):
            raise ValueError(f"line {number} is no tenant followed by a SHA-256 in 64 lower-case hex digits")
        if tenants.setdefault(words[1], words[0]) != words[0]:
            raise ValueError(f"line {number} gives a token of another tenant to {words[0]}")
    return tenants


class TokenFile:
    """The tokens in a file, as they are now.

    Raises:
        AuthError: the file cannot be used.
    """

    def __init__(self, path: Path, failed: Callable[[], None]) -> None:
        self._tenants: Watched[Mapping[str, str]] = Watched([path], lambda: _read(path), failed)

    def tenant_of(self, token: str) -> str | None:
        """Whose token it is; None when it is nobody's."""
        return self._tenants.current().get(digest(token))


def _read(path: Path) -> dict[str, str]:
    mend = "Make one with `inductord token new`."
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o002:
                raise AuthError(f"every user can write to the file of tokens {path}. Run: chmod o-w {path}")
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise AuthError(f"the file of tokens {path} cannot be read: {error.strerror}. {mend}") from error
    if len(content) > _MAX_BYTES:
        raise AuthError(f"the file of tokens {path} is larger than {_MAX_BYTES} bytes. {mend}")
    try:
        tenants = parse(content.decode())
    except ValueError as error:
        raise AuthError(f"the file of tokens {path} cannot be used: {error}. {mend}") from error
    return tenants


def add(path: Path, tenant: str, token: str) -> None:
    """Put a token's digest into the file, which is made for this user alone when it is not there.

    Raises:
        OSError: it cannot be written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        begin = "\n" if file.read(1) not in (b"", b"\n") else ""
        # One write, at the end: whoever adds at the same time stays whole, and so does whoever reads.
        file.write(f"{begin}{tenant} {digest(token)}\n".encode())
