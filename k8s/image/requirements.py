"""Lists what inductord needs besides torch: ``requirements.py PYPROJECT EXTRA[,EXTRA...]``, for ``pip install -r``."""

import re
import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """Requirements of the base install and of these extras; extras that name inductord's own extras are resolved.

    Raises:
        KeyError: there is no such extra.
    """
    project = tomllib.loads(pyproject.read_text())["project"]
    found: list[str] = []
    waiting = list(project["dependencies"])
    for extra in extras:
        waiting += project["optional-dependencies"][extra]
    while waiting:
        each = waiting.pop(0)
        own = re.fullmatch(rf"{project['name']}\[([\w,-]+)\]", each)
        if own:
            waiting += [row for extra in own[1].split(",") for row in project["optional-dependencies"][extra]]
        elif re.split(r"[^\w-]", each, maxsplit=1)[0] != "torch" and each not in found:
            found.append(each)
    return found


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), sys.argv[2].split(","))))
