"""What a connection over TCP shows and wants to see: certificates and a token, as the environment names them.

Read at each connect, so that files which were rotated are taken. A rank, the command line and everything else that connects
use the same variables.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from inductord.compiler.address import AddressError

_CA = "INDUCTORD_TLS_CA"
_CERT = "INDUCTORD_TLS_CERT"
_KEY = "INDUCTORD_TLS_KEY"
_SERVER_NAME = "INDUCTORD_TLS_SERVER_NAME"
_TOKEN = "INDUCTORD_TOKEN"
_TOKEN_FILE = "INDUCTORD_TOKEN_FILE"
_INSECURE = "INDUCTORD_INSECURE"
VARIABLES = frozenset({_CA, _CERT, _KEY, _SERVER_NAME, _TOKEN, _TOKEN_FILE, _INSECURE})
_YES = frozenset({"1", "true", "yes", "on"})


class SecurityError(AddressError):
    """Certificates or a token cannot be used as they are set. The message says why, and holds no secret."""


@dataclasses.dataclass(frozen=True, slots=True)
class Security:
    """``tls``: whether the connection is encrypted. ``ca``: authority of the daemon's certificate, the system's when None.
    ``cert`` and ``key``: what we show, or None. ``server_name``: whose certificate the daemon must have; the host's when
    empty. ``token``: shown with every call, or empty."""

    tls: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str = ""
    token: str = dataclasses.field(default="", repr=False)


def security_from(environ: Mapping[str, str] = os.environ) -> Security:
    """What the environment says.

    Raises:
        SecurityError: it contradicts itself, a token cannot be read, or a token would be sent in clear.
    """
    ca, cert, key = (Path(value) if (value := environ.get(name)) else None for name in (_CA, _CERT, _KEY))
    if (cert is None) != (key is None):
        raise SecurityError(f"{_CERT} and {_KEY} belong together: set both or neither.")
    server_name = environ.get(_SERVER_NAME, "")
    tls = bool(ca or cert or server_name)
    token = _token(environ)
    if token and not tls and environ.get(_INSECURE, "").strip().lower() not in _YES:
        raise SecurityError(
            f"the token would travel in clear, and whoever sees it can use it. Set {_CA}, or {_INSECURE}=1 to send it all "
            "the same."
        )
    return Security(tls, ca, cert, key, server_name, token)


def _token(environ: Mapping[str, str]) -> str:
    token, file = environ.get(_TOKEN, ""), environ.get(_TOKEN_FILE, "")
    if token and file:
        raise SecurityError(f"{_TOKEN} and {_TOKEN_FILE} are both set. Keep one.")
    if file:
        try:
            token = Path(file).read_text(encoding="ascii")
        except OSError as error:
            raise SecurityError(f"{_TOKEN_FILE} {file} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError:
            raise SecurityError(f"{_TOKEN_FILE} {file} holds no token.") from None
        if not token.strip():
            raise SecurityError(f"{_TOKEN_FILE} {file} is empty.")
    token = token.strip()
    if not all("!" <= character <= "~" for character in token):
        raise SecurityError(f"the value of {_TOKEN_FILE if file else _TOKEN} is no token: it is one word of ASCII.")
    return token
