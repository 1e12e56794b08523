"""What a check says."""

import dataclasses
import enum


class Level(enum.StrEnum):
    """How bad it is. ``WARN``: it works, with less than one may expect. ``FAIL``: something will not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``found``: what is there. ``mend``: what to do about it; empty when all is well."""

    check: str
    level: Level
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, found)


def warn(check: str, found: str, mend: str) -> Finding:
    """It works, with less than one may expect."""
    return Finding(check, Level.WARN, found, mend)


def fail(check: str, found: str, mend: str) -> Finding:
    """Something will not work."""
    return Finding(check, Level.FAIL, found, mend)
