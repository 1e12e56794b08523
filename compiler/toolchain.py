"""Identity of the C++ compiler and of the CPU, found without torch.

The compiler is part of every key: another one contracts and vectorises differently, so its numbers
may differ. A rank that has none takes the identity that the daemon advertises.
"""

import functools
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence

_VERSION_TIMEOUT_S = 10.0


def cxx_candidates(configured: str | Sequence[str | None] | None = None) -> tuple[str, ...]:
    """Compiler names in the order in which Inductor tries them (``torch._inductor.config.cpp.cxx``).

    ``configured`` is that setting; without it, what PyTorch makes of the environment: ``CXX``, else ``g++``.
    """
    if configured is None:
        return (os.environ.get("CXX", "g++"),)
    if isinstance(configured, str):
        return (configured,)
    return tuple(name for name in configured if name)


@functools.lru_cache(maxsize=16)
def _identity_of(path: str) -> str:
    try:
        version = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
    first_line = version.splitlines()[0] if version else ""
    return f"{first_line} #{hashlib.sha256(version.encode()).hexdigest()[:12]}"


def cxx_identity(candidates: Sequence[str] | None = None) -> str:
    """Version line and digest of the first compiler that is there, or ``""`` when none is.

    The path is left out: the same compiler in another place makes the same code.
    """
    for name in cxx_candidates() if candidates is None else candidates:
        if path := shutil.which(name):
            return _identity_of(path)
    return ""


@functools.lru_cache(maxsize=4)
def _cpu_features(cpuinfo: str) -> frozenset[str]:
    try:
        with open(cpuinfo) as file:
            lines = file.read().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, values = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            return frozenset(values.split())  # all CPUs of a node are of one kind
    return frozenset()


def cpu_identity(cpuinfo: str = "/proc/cpuinfo") -> str:
    """Machine, widest vector unit and digest of all CPU features, e.g. ``"x86_64 avx512f #0a1b2c3d4e5f"``.

    Inductor compiles with ``-march=native``: what it makes may not run where a feature is missing.
    """
    features = _cpu_features(cpuinfo)
    # ATen lets the vector unit be chosen by hand.
    chosen = os.environ.get("ATEN_CPU_CAPABILITY", "")
    widest = chosen or next((name for name in ("avx512f", "avx2", "sve", "asimd") if name in features), "scalar")
    digest = hashlib.sha256(" ".join(sorted(features)).encode()).hexdigest()[:12]
    return f"{platform.machine()} {widest} #{digest}"
