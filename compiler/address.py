"""Where the daemon of this node listens, found the same way by daemon, CLI and ranks.

An artifact is code, so a rank must not talk to a socket that another user put in its way: the default address lies in
a folder that only we may enter, and that is checked. Torch-free, and without getpwuid or HOME: containers often have
neither. It must not create the folder unless asked (`ensure_private_dir`): a rank only looks.
"""

import dataclasses
import ipaddress
import os
import stat
import tempfile
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

ADDRESS_VARIABLE = "INDUCTORD_ADDRESS"
MAX_SOCKET_PATH = 107
"""Bytes of a Unix socket path that the kernel takes (``sun_path`` less its end mark)."""

_SCHEME = "unix:"
_TCP = "tcp://"
_SOCKET = "inductord.sock"


class AddressError(ValueError):
    """An address that cannot be used. The message says why and what to do."""


@dataclasses.dataclass(frozen=True, slots=True)
class TcpAddress:
    """A port of a host: a name, or an IP address without brackets."""

    host: str
    port: int

    @property
    def target(self) -> str:
        """As gRPC writes it."""
        try:
            version = ipaddress.ip_address(self.host).version
        except ValueError:
            return f"dns:///{self.host}:{self.port}"
        return f"ipv6:[{self.host}]:{self.port}" if version == 6 else f"ipv4:{self.host}:{self.port}"


def private_dir() -> Path:
    """The folder of the default socket: of this user, for this boot. It may not exist yet.

    Raises:
        AddressError: when the machine has no folder for temporary files.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and _usable_runtime_dir(Path(runtime)):
        return Path(runtime) / "inductord"
    return temporary_dir()


def temporary_dir() -> Path:
    """A private folder among the temporary files, for what is large or has no better place. It may not exist yet.

    Raises:
        AddressError: when the machine has no folder for temporary files.
    """
    try:
        base = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise AddressError(f"no folder for temporary files: {error}. Set TMPDIR, or {ADDRESS_VARIABLE}.") from error
    return Path(base) / f"inductord-{os.geteuid()}"


def default_address() -> str:
    """``unix:<path>`` of the daemon of this user on this node.

    Raises:
        AddressError: when the path is too long, or its folder exists and is not private to this user.
    """
    folder = private_dir()
    if os.path.lexists(folder):
        check_private_dir(folder)
    path = folder / _SOCKET
    _check_length(path)
    return f"{_SCHEME}{path}"


def configured_address(environ: Mapping[str, str] = os.environ) -> str:
    """What ``INDUCTORD_ADDRESS`` says, else the default address.

    Raises:
        AddressError: as `default_address` does.
    """
    return environ.get(ADDRESS_VARIABLE) or default_address()


def parse_address(address: str) -> Path | TcpAddress:
    """Where an address leads: the path of a Unix socket, or a port for ``tcp://host:port``.

    Raises:
        AddressError: it is neither.
    """
    if not address.startswith(_TCP):
        return socket_path(address)
    parts = urllib.parse.urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(f"{address!r} has no usable port: {error}.") from error
    if not host or not port or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise AddressError(f"{address!r} is no tcp://host:port, such as tcp://10.0.0.7:7777 or tcp://[fd00::7]:7777.")
    return TcpAddress(host, port)


def socket_path(address: str) -> Path:
    """The absolute path in a ``unix:`` address.

    Raises:
        AddressError: for another scheme, a relative path or one that the kernel does not take.
    """
    if not address.startswith(_SCHEME):
        mend = (
            "A daemon itself listens on TCP with the setting `listen`, besides its socket."
            if address.startswith(_TCP)
            else "Addresses look like unix:/run/inductord/inductord.sock or tcp://host:port."
        )
        raise AddressError(f"{address!r} is not a Unix socket. {mend}")
    text = address.removeprefix(_SCHEME)
    # gRPC also writes unix:///path.
    path = Path("/" + text.lstrip("/")) if text.startswith("/") else Path(text)
    if not path.is_absolute():
        raise AddressError(
            f"{address!r} has a relative path: daemon and ranks run in different folders. Give the whole path."
        )
    _check_length(path)
    return path


def ensure_private_dir(folder: Path) -> None:
    """Create ``folder`` for this user alone (0700), or check that it is so. Missing folders above it are made alike: one of
    them may be where sockets will be.

    Raises:
        AddressError: when it is another user's, a link, open to others or cannot be made.
    """
    try:
        for each in (*reversed(folder.parents), folder):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise AddressError(f"cannot make the folder {folder}: {error}. Choose another address.") from error
    check_private_dir(folder)


def check_private_dir(folder: Path) -> None:
    """Check that only this user may enter ``folder``.

    Raises:
        AddressError: when it is missing, another user's, a link or open to others.
    """
    try:
        status = folder.lstat()
    except OSError as error:
        raise AddressError(f"cannot look at {folder}: {error}.") from error
    if stat.S_ISLNK(status.st_mode):
        raise AddressError(f"{folder} is a link; somebody else may have made it. Remove it, or choose another address.")
    if not stat.S_ISDIR(status.st_mode):
        raise AddressError(f"{folder} is no folder. Remove it, or choose another address.")
    if status.st_uid != os.geteuid():
        raise AddressError(
            f"{folder} belongs to user {status.st_uid}, not to us ({os.geteuid()}). "
            "Set INDUCTORD_ADDRESS to a socket elsewhere."
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise AddressError(f"{folder} is open to other users. Run: chmod 700 {folder}")


def _usable_runtime_dir(base: Path) -> bool:
    # It is inherited across su and sudo, and then belongs to somebody else.
    try:
        status = base.stat()
    except OSError:
        return False
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return base.is_absolute() and ours and os.access(base, os.W_OK | os.X_OK)


def _check_length(path: Path) -> None:
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH:
        raise AddressError(
            f"the socket path {path} has {length} bytes and the kernel takes {MAX_SOCKET_PATH}. "
            f"Set {ADDRESS_VARIABLE} to a shorter one, such as unix:/tmp/me/inductord.sock."
        )
