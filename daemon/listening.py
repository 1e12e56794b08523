"""The daemon's Unix socket: one daemon per path, private, and removed only by the one that made it.

A second bind would silently take the path away from the first daemon, so a lock is held from before the bind until after
the socket is gone. The lock file itself stays: removing it would let two daemons hold locks on two files of one name.
"""

import contextlib
import fcntl
import grp
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from inductord.compiler.address import AddressError, ensure_private_dir, private_dir, socket_path

_log = logging.getLogger("inductord.server")


class SocketBusy(RuntimeError):
    """Another daemon has the socket."""


class Listening:
    """The right to bind ``address``. ``group``, by name or number: its members may use the socket as well.

    Raises:
        AddressError: the folder cannot be used, or there is no such group.
        SocketBusy: another daemon has it.
    """

    def __init__(self, address: str, group: str | None = None) -> None:
        self.path = socket_path(address)
        self._group = None if group is None else _group_id(group)
        _prepare(self.path.parent)
        self._lock = _lock(self.path)
        self._identity: tuple[int, int] | None = None

    @contextlib.contextmanager
    def binding(self) -> Iterator[None]:
        """Bind within this context: the socket is for this user, and the group if there is one, alone.

        Raises:
            AddressError: this user cannot give the socket to the group.
        """
        before = os.umask(0o177)
        try:
            yield
        finally:
            os.umask(before)
        self._identity = _identity(self.path)
        if self._group is not None:
            try:
                os.chown(self.path, -1, self._group)
            except OSError as error:
                raise AddressError(
                    f"cannot give {self.path} to group {self._group}: {error.strerror}. Choose a socket_group that this "
                    "user is a member of."
                ) from error
            self.path.chmod(0o660)

    def close(self) -> None:
        """Remove the socket if it is still ours, and let another daemon have the path."""
        if self._identity is not None and _identity(self.path) == self._identity:
            self.path.unlink(missing_ok=True)
        os.close(self._lock)


def _group_id(group: str) -> int:
    if group.isdecimal():
        return int(group)  # a container's groups often have no names
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise AddressError(
            f"socket_group: there is no group {group!r}. Write a name that exists, or a number."
        ) from None


def _prepare(folder: Path) -> None:
    if folder == private_dir() or not folder.exists():
        ensure_private_dir(folder)
    elif folder.stat().st_mode & 0o002:
        # Named by the user, so it is theirs to decide; but whoever can write there can put a socket in our place.
        _log.warning("every user of this machine can write to %s: choose a private folder for the socket", folder)


def _lock(path: Path) -> int:
    name = path.with_name(path.name + ".lock")
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise AddressError(f"cannot open {name}: {error.strerror}. Choose another address.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise SocketBusy(
            f"another daemon (pid {owner}) listens on unix:{path}. Use it, stop it with `inductord stop`, "
            "or give this one another address."
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
