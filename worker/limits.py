"""What this process may use: CPUs and memory, from the cgroup (v1 and v2), the affinity mask and the machine.

Reads files under a root given by the caller and does nothing else. A file that is absent or says "no limit" sets
none: a container shows only part of the tree.
"""

import dataclasses
import math
import os
from collections.abc import Iterator
from pathlib import Path

WORKER_MEMORY_BYTES = 2 * 1024**3
"""What one worker is expected to need, with the C++ compilers under it."""

_ROOT = Path("/")
# cgroup v1 writes "no limit" as the largest multiple of the page size.
_V1_UNLIMITED = 2**60


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """What a pool may use: whole CPUs, and bytes of memory (None when that cannot be told)."""

    cpus: int
    memory_bytes: int | None

    def max_workers(self) -> int:
        """One worker a CPU, as far as memory goes; at least one."""
        by_memory = self.cpus if self.memory_bytes is None else self.memory_bytes // WORKER_MEMORY_BYTES
        return max(1, min(self.cpus, by_memory))


def this_machine(root: Path = _ROOT) -> Machine:
    """The limits that hold for this process."""
    quota = cpu_quota(root)
    affinity = len(os.sched_getaffinity(0))
    cpus = affinity if quota is None else max(1, min(affinity, math.floor(quota)))
    return Machine(cpus=cpus, memory_bytes=memory_limit(root))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """CPUs that the cgroup and those above it grant, or None without a quota."""
    quotas = []
    for folder in _folders(root, "cpu"):
        if v2 := _read(folder / "cpu.max"):
            granted, _, period = v2.partition(" ")
        else:
            granted, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if granted.isdecimal() and period.isdecimal() and int(period):
            quotas.append(int(granted) / int(period))
    return min(quotas, default=None)


def memory_limit(root: Path = _ROOT) -> int | None:
    """Bytes that the cgroup, those above it and the machine allow, or None when nothing says."""
    limits = []
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name)
            if text.isdecimal() and int(text) < _V1_UNLIMITED:
                limits.append(int(text))
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            limits.append(int(line.split()[1]) * 1024)
    return min(limits, default=None)


def oom_kills(root: Path = _ROOT) -> int:
    """How many processes of this cgroup the kernel has killed for memory so far; 0 when nothing says."""
    for folder in _folders(root, "memory"):
        for name in ("memory.events", "memory.oom_control"):
            for line in _read(folder / name).splitlines():
                field, _, count = line.partition(" ")
                if field == "oom_kill" and count.isdecimal():
                    return int(count)
    return 0


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's cgroup folders for ``controller``, v1 and v2, each followed by those above it."""
    mounts = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            mount = mounts / "unified" if (mounts / "unified").is_dir() else mounts
        elif controller in controllers.split(","):
            mount = mounts / controllers if (mounts / controllers).is_dir() else mounts / controller
        else:
            continue
        inner = mount / path.strip("/")
        # In a container the path may be the host's, and only the mount's root is visible.
        yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(mount) and folder.is_dir())


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
