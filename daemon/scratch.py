"""A folder for the workers' temporary files in which programs may be executed.

Compiled kernels are loaded from there, so a noexec mount fails at the first compile with an obscure error. This looks
before: it really runs something. It removes nothing but its own probe.
"""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from inductord.compiler.address import AddressError, ensure_private_dir, temporary_dir

_PROBE = "#!/bin/sh\nexit 0\n"
_PROBE_TIMEOUT_S = 10.0


class ScratchUnusable(RuntimeError):
    """No folder allows execution. The message names those that were tried."""


def scratch_candidates(configured: Path | None, store_path: Path) -> list[Path]:
    """Folders to try, best first. A configured one is tried alone: a silent substitute would surprise."""
    if configured is not None:
        return [configured]
    name = f"inductord-{os.geteuid()}"
    shared = [Path("/var/tmp") / name, Path("/dev/shm") / name]
    return [temporary_dir() / "scratch", *(folder / "scratch" for folder in shared), store_path.parent / "scratch"]


def find_scratch(candidates: Sequence[Path]) -> Path:
    """The first candidate, made if need be, in which a program can be run.

    Raises:
        ScratchUnusable: when there is none.
    """
    problems: list[str] = []
    for folder in candidates:
        try:
            _make(folder)
            check_executable(folder)
        except (OSError, AddressError, ScratchUnusable) as error:
            problems.append(f"  {folder}: {error}")
        else:
            return folder
    raise ScratchUnusable(
        "no folder for the workers' files allows execution. Tried:\n"
        + "\n".join(problems)
        + "\nSet scratch (INDUCTORD_SCRATCH) to a folder on a file system that is mounted without noexec."
    )


def check_executable(folder: Path) -> None:
    """Run a small program that lies in ``folder``.

    Raises:
        ScratchUnusable: when it cannot be run.
        OSError: when it cannot be written.
    """
    descriptor, name = tempfile.mkstemp(prefix="exec-check-", dir=folder)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(_PROBE)
        os.chmod(name, 0o700)
        try:
            subprocess.run([name], check=True, timeout=_PROBE_TIMEOUT_S, stdin=subprocess.DEVNULL)
        except PermissionError as error:
            raise ScratchUnusable("mounted noexec") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise ScratchUnusable(f"a program there does not run: {error}") from error
    finally:
        os.unlink(name)


def _make(folder: Path) -> None:
    # The parents of candidates in world-writable places carry our user's number: somebody else may have made them.
    if folder.parent.name == f"inductord-{os.geteuid()}":
        ensure_private_dir(folder.parent)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
