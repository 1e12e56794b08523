"""What the environment tells a rank. Read once per process, when the first graph comes.

A rank has no settings library: its base install is torch, grpc and protobuf.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from inductord.compiler.address import AddressError, configured_address

_NO = frozenset({"0", "false", "no", "off"})
VARIABLES = frozenset(
    f"INDUCTORD{name}"
    for name in ("", "_ADDRESS", "_JOB", "_MAX_WAIT", "_PROGRESS", "_RECORD_DIR", "_REGIONS", "_REPORT_DIR")
)
"""What a rank reads, but for what ``security`` reads. The worker has INDUCTORD_SCRATCH from its daemon."""

REGIONS = ("off", "auto", "force")
DEFAULT_MAX_WAIT_S = 300.0
"""Half of the shortest default timeout of a process group (10 minutes, NCCL): a rank that gave up waiting still has time to
compile by itself before the others' collectives time out."""


class SettingsError(ValueError):
    """A variable whose value cannot be used. The message names it."""


@dataclasses.dataclass(frozen=True, slots=True)
class RankSettings:
    """``address``: of the daemon, ``unix:PATH``; ``max_wait``: seconds that a rank waits for one graph before it compiles
    by itself; ``report_dir``: where the rank leaves its counts at exit, or None; ``progress``: write a line while waiting;
    ``regions``: one of ``REGIONS``; ``record_dir``: where the rank leaves the graphs that it asks for, or None."""

    enabled: bool
    address: str
    max_wait: float
    job: str
    rank: int
    world_size: int
    report_dir: Path | None
    progress: bool
    regions: str = "auto"
    record_dir: Path | None = None


def from_environment(environ: Mapping[str, str] | None = None) -> RankSettings:
    """Settings of this rank from ``INDUCTORD_*`` and what torchrun sets.

    Raises:
        SettingsError: for a value that cannot be used.
    """
    env = os.environ if environ is None else environ
    rank = _integer(env, "RANK", 0)
    try:
        address = configured_address(env)
    except AddressError as error:
        raise SettingsError(str(error)) from error
    report_dir = env.get("INDUCTORD_REPORT_DIR", "")
    record_dir = env.get("INDUCTORD_RECORD_DIR", "")
    progress = env.get("INDUCTORD_PROGRESS", "").strip().lower()
    return RankSettings(
        enabled=env.get("INDUCTORD", "").strip().lower() not in _NO,
        address=address,
        max_wait=_seconds(env, "INDUCTORD_MAX_WAIT", DEFAULT_MAX_WAIT_S),
        job=env.get("INDUCTORD_JOB") or env.get("TORCHELASTIC_RUN_ID") or f"pid-{os.getpid()}",
        rank=rank,
        world_size=_integer(env, "WORLD_SIZE", 1),
        report_dir=Path(report_dir) if report_dir else None,
        record_dir=Path(record_dir) if record_dir else None,
        progress=rank == 0 and progress not in _NO and (bool(progress) or sys.stderr.isatty()),
        regions=checked_regions(env.get("INDUCTORD_REGIONS", "").strip().lower() or "auto", "INDUCTORD_REGIONS"),
    )


def checked_regions(value: object, name: str) -> str:
    """``value``, which ``name`` has, if it is one of ``REGIONS``.

    Raises:
        SettingsError: it is not.
    """
    if value not in REGIONS:
        raise SettingsError(f"{name}={value!r} is none of {', '.join(REGIONS)}")
    return str(value)


def _integer(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        return default  # torchrun's variables are not ours to judge


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError as error:
        raise SettingsError(f"{name}={text!r} is no number of seconds") from error
    if not value > 0:
        raise SettingsError(f"{name}={text!r} must be above 0")
    return value
