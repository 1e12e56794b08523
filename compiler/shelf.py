"""Kernel libraries of artifacts, as files in Inductor's cache folder of a rank. No torch.

Each is a file named by its own content. A link named by the digest of its source finds it again; a second link stands where
Inductor would have built it, so that a later job without inductord finds it too. Ranks of a node share the folder: files
appear whole or not at all, and the first one stays.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path, PurePosixPath

from inductord.compiler.payload import Library


class Shelf:
    """The libraries in one of Inductor's cache folders."""

    def __init__(self, inductor_cache: Path) -> None:
        self._cache = inductor_cache
        self._folder = inductor_cache / "inductord"

    def find(self, digest: str) -> Path | None:
        """The library built from the source with this digest, or None. Its name is that of its content."""
        link = self._link(digest)
        try:
            path = Path(os.path.normpath(link.parent / os.readlink(link)))
        except OSError:
            return None
        return path if path.is_file() else None

    def put(self, digest: str, library: Library) -> Path:
        """Keep a library and return its file.

        Raises:
            OSError: the folder cannot be written.
        """
        name = hashlib.sha256(library.content).hexdigest()
        path = self._folder / name[:2] / f"{name}.so"
        if not _holds(path, library.content):
            _write(path, library.content)
        link = self._link(digest)
        with contextlib.suppress(FileExistsError):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(path, link.parent))
        self._link_for_inductor(path, library.cache_path)
        return path

    def _link(self, digest: str) -> Path:
        return self._folder / "by-source" / digest[:2] / digest

    def _link_for_inductor(self, path: Path, cache_path: str) -> None:
        relative = PurePosixPath(cache_path)
        if not cache_path or relative.is_absolute() or ".." in relative.parts:
            return
        target = self._cache / relative
        # The library is usable without this link; a file system without hard links just has none.
        with contextlib.suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
