"""The features that are tested, by the scripts that use them and by the tables of ``docs/features.md``."""

import dataclasses
import re

from support.training import JOBS

DOCS = JOBS.parent.parent / "docs" / "features.md"


def names(script: str) -> list[str]:
    """The features that a script of ``tests/jobs`` has a function for, in order. It is not imported: it needs torch."""
    return re.findall(r'^@case\("(.+)"\)$', (JOBS / script).read_text(), re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Row:
    """``reasons``: of fallbacks, empty where it works."""

    feature: str
    reasons: list[str]


def documented(heading: str) -> list[Row]:
    """The rows of the table under a heading."""
    section = DOCS.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    return [Row(each[0].removeprefix("| "), re.findall(r"`(\w+)`", each[1])) for each in cells]
