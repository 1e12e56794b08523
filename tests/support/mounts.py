"""Commands under file systems of their own: mounted where only they see them, gone when they end. Needs root."""

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.needs import needs

_UNSHARE = ("unshare", "--mount", "sh", "-ec")


def under_mounts(mounts: dict[Path, str], command: Sequence[str]) -> list[str]:
    """``command`` with a tmpfs of the given options on each folder. It keeps the pid of what is started."""
    steps = [f"mkdir -p '{folder}'; mount -t tmpfs -o {options} none '{folder}'" for folder, options in mounts.items()]
    return [*_UNSHARE, "; ".join([*steps, 'exec "$@"']), "sh", *command]


def needs_mounts() -> None:
    """Go on when this user may mount."""
    needs(_may_mount(), "the right to mount file systems (root, and a container that allows it)")


@functools.cache
def _may_mount() -> bool:
    try:
        tried = subprocess.run(under_mounts({Path("/mnt"): "size=1m"}, ["true"]), capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return tried.returncode == 0
