"""Named objects under the URL of a shared store, by fsspec. Blocking; any thread.

An object appears whole or not at all where the file system can do that. Where it cannot, the reader's checks find it.
"""

import importlib.util
import re
import secrets
import threading
from typing import Any

import fsspec
from fsspec.registry import known_implementations

from inductord.daemon.shared.errors import SharedStoreUnusable

# Where a write is seen while it goes on, but a rename is not. Object stores publish a PUT as a whole.
_RENAMES = frozenset({"file", "local", "sftp", "ssh", "hdfs", "webhdfs", "smb"})
_USER_INFO = re.compile(r"://[^/\s]*@")
_QUERY = re.compile(r"\?[^\s'\"]*")


class TooLarge(Exception):
    """The object is larger than what may be kept here."""


def redacted(text: str) -> str:
    """``text`` without what URLs in it may hold of credentials."""
    return _QUERY.sub("?…", _USER_INFO.sub("://…@", text))


def check_url(url: str) -> None:
    """Fail for a URL that can never work, without importing its driver, which may take seconds.

    Raises:
        SharedStoreUnusable: fsspec does not know the scheme, or its driver is not installed.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or not rest:
        raise SharedStoreUnusable(
            f"shared_store is no URL: {redacted(url)!r}. Write file:///folder or s3://bucket/folder."
        )
    known = known_implementations.get(scheme.partition("::")[0])
    if known is None:
        raise SharedStoreUnusable(f"shared_store: fsspec knows no {scheme!r}. Its documentation lists what it knows.")
    package = str(known["class"]).partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise SharedStoreUnusable(
            f"shared_store: {scheme} needs the package {package}: {known.get('err', 'install it')}."
        )


class Objects:
    """Objects under ``url``. The driver is imported and connected at the first use, in the caller's thread.

    Methods raise whatever the driver does, besides what they name.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._opened: tuple[Any, str] | None = None

    def read(self, name: str, max_bytes: int) -> bytes:
        """A whole object.

        Raises:
            FileNotFoundError: there is none.
            TooLarge: it has more than ``max_bytes``.
        """
        fs, root = self._open()
        data: bytes = fs.cat_file(f"{root}/{name}", start=0, end=max_bytes + 1)
        if len(data) > max_bytes:
            raise TooLarge
        return data

    def write(self, name: str, data: bytes) -> None:
        """Publish an object, over whatever is there under its name."""
        fs, root = self._open()
        path = f"{root}/{name}"
        if not _RENAMES & _protocols(fs):
            fs.pipe_file(path, data)
            return
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        part = f"{path}.{secrets.token_hex(8)}.part"
        try:
            fs.pipe_file(part, data)
            fs.mv(part, path)
        except BaseException:
            if fs.exists(part):
                fs.rm_file(part)
            raise

    def _open(self) -> tuple[Any, str]:
        with self._lock:
            if self._opened is None:
                fs, root = fsspec.core.url_to_fs(self._url)
                self._opened = fs, root.rstrip("/")
            return self._opened


def _protocols(fs: Any) -> set[str]:
    return {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
