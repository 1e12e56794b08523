"""Compiler, folders, user and limits: what containers and clusters get wrong."""

import getpass
import os
import platform
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import psutil

from inductord.compiler.address import AddressError, TcpAddress, check_private_dir, parse_address, private_dir
from inductord.compiler.toolchain import cxx_candidates, cxx_identity
from inductord.daemon.cli import words
from inductord.daemon.cli.checks.finding import Finding, fail, ok, warn
from inductord.daemon.config import DaemonConfig
from inductord.daemon.scratch import ScratchUnusable, find_scratch, scratch_candidates
from inductord.worker.limits import WORKER_MEMORY_BYTES, this_machine

_LITTLE_SPACE = 1 << 30
_LITTLE_SHM = 1 << 30
# Locks and SQLite's write-ahead log are not dependable there, and two nodes must not share one store.
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p", "fuse.sshfs")


def cxx(config: DaemonConfig) -> Iterator[Finding]:
    """The C++ compiler that workers use. Ranks need none."""
    found = cxx_identity()
    if found:
        yield ok("C++ compiler", found)
        return
    names = ", ".join(cxx_candidates())
    yield fail(
        "C++ compiler",
        f"none found (looked for {names}); workers of this node cannot build kernels for the CPU",
        "Install one (apt-get install g++), or set CXX to it. Ranks need none as long as a daemon serves them.",
    )


def headers(config: DaemonConfig) -> Iterator[Finding]:
    """The headers of this Python, which the C++ code that Inductor generates includes. Ranks need none."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if header.is_file():
        yield ok("headers", str(header))
        return
    version = ".".join(platform.python_version_tuple()[:2])
    yield fail(
        "headers",
        f"{header} is absent; workers of this node cannot build kernels for the CPU",
        f"Install them (apt-get install python{version}-dev). Ranks need none as long as a daemon serves them.",
    )


def limits(config: DaemonConfig) -> Iterator[Finding]:
    """CPUs and memory that the pool may use."""
    machine = this_machine()
    memory = "memory unknown" if machine.memory_bytes is None else f"{words.size(machine.memory_bytes)} of memory"
    found = f"{words.count(machine.cpus, 'CPU')}, {memory}: at most {words.count(machine.max_workers(), 'worker')}"
    if machine.memory_bytes is not None and machine.memory_bytes < WORKER_MEMORY_BYTES:
        yield warn(
            "limits",
            found,
            f"A compile may need {words.size(WORKER_MEMORY_BYTES)}; raise the container's memory limit.",
        )
    else:
        yield ok("limits", found)


def scratch(config: DaemonConfig) -> Iterator[Finding]:
    """A folder from which programs can be run, found as the daemon finds it."""
    try:
        folder = find_scratch(scratch_candidates(config.scratch, config.store_path))
    except ScratchUnusable as error:
        problem, _, mend = str(error).rpartition("\n")
        yield fail("scratch", problem, mend)
    else:
        yield ok("scratch", f"{folder} allows execution")


def socket_folder(config: DaemonConfig) -> Iterator[Finding]:
    """Whether only we can put a socket, and so code, where ranks look for it."""
    where = parse_address(config.address)
    if isinstance(where, TcpAddress):
        return
    folder = where.parent
    if folder == private_dir():
        if not os.path.lexists(folder):
            yield ok("socket folder", f"{folder} will be made, for this user only")
            return
        try:
            check_private_dir(folder)
        except AddressError as error:
            yield fail("socket folder", str(error), "Mend its owner and mode, or choose another --address.")
            return
        yield ok("socket folder", f"{folder} is private")
    elif not folder.is_dir():
        yield ok("socket folder", f"{folder} will be made, for this user only")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield warn(
            "socket folder",
            f"{folder} is not writable for user {os.geteuid()}; a daemon cannot be started there",
            "That is right where only ranks run. Otherwise change its owner, or choose another --address.",
        )
    elif folder.stat().st_mode & 0o002 and not folder.stat().st_mode & 0o1000:
        yield fail(
            "socket folder",
            f"everybody may replace the socket in {folder}, and what comes from it is run as code",
            f"chmod o-w {folder}",
        )
    else:
        yield ok("socket folder", f"{folder} is writable")


def store(config: DaemonConfig) -> Iterator[Finding]:
    """Whether artifacts can be kept, and where."""
    path = config.store_path
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield fail(
            "store",
            f"{path}: {existing} is not writable for user {os.geteuid()}",
            "Choose another folder with --store or INDUCTORD_STORE_PATH.",
        )
        return
    free = shutil.disk_usage(existing).free
    found = f"{path}, {words.size(free)} free, at most {words.size(config.store_max_bytes)} used"
    kind = _file_system(existing)
    if kind.startswith(_NETWORK_FILE_SYSTEMS):
        yield warn(
            "store",
            f"{found}, on {kind}",
            "Choose a folder on a disk of this node; a shared file system is slow and its locks are not dependable.",
        )
    elif free < _LITTLE_SPACE:
        yield warn(
            "store",
            found,
            "Make room, or choose another folder. On a full disk no store begins, and one that is there keeps new "
            "artifacts in memory only.",
        )
    else:
        yield ok("store", found)


def _file_system(path: Path) -> str:
    resolved = path.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if resolved.is_relative_to(part.mountpoint)]
    # Of two mounts at one place the later one hides the earlier.
    return max(reversed(mounts), key=lambda part: len(part.mountpoint)).fstype if mounts else ""


def home(config: DaemonConfig) -> Iterator[Finding]:
    """HOME, which much of the world takes for granted. inductord does not."""
    path = os.environ.get("HOME", "")
    if path and os.access(path, os.W_OK | os.X_OK):
        yield ok("home", path)
        return
    what = f"{path} is not writable" if path else "HOME is not set"
    mend = "inductord does without."
    if config.origins.get("store_path") is None:
        mend += (
            f" Its store is in {config.store_path} then; set INDUCTORD_STORE_PATH to a folder that outlives a reboot."
        )
    yield warn("home", what, mend)


def user(config: DaemonConfig) -> Iterator[Finding]:
    """Whether the user has a name, as PyTorch asks for it when it chooses its cache folder: by variable, else by UID."""
    uid = os.geteuid()
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        yield warn(
            "user",
            f"UID {uid} is in no passwd file",
            "inductord does without. For compiles outside of it set TORCHINDUCTOR_CACHE_DIR, or USER.",
        )
    else:
        yield ok("user", f"{name} ({uid})")


def shared_memory(config: DaemonConfig) -> Iterator[Finding]:
    """``/dev/shm``, where Ray keeps its objects."""
    path = Path("/dev/shm")
    if not config.pool.startswith("ray"):
        return
    if not path.is_dir():
        yield warn("/dev/shm", "absent", "Ray will use files instead, slowly. Mount a tmpfs there.")
        return
    total = shutil.disk_usage(path).total
    if total < _LITTLE_SHM:
        yield warn("/dev/shm", words.size(total), "Little for Ray. Start the container with --shm-size=2g or more.")
    else:
        yield ok("/dev/shm", words.size(total))
