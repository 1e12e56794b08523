"""The tables in these documents that are made from the code, so that they cannot drift from it.

    python docs/tables.py           writes them anew
    python docs/tables.py --check   says which are stale, and ends with 1 if one is

It touches only what lies between the marks of a table; the words around it are written by people.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from inductord.daemon.cli import serve
from inductord.daemon.config import DaemonConfig
from inductord.daemon.metrics.table import table as metrics_table

_DOCS = Path(__file__).parent
# Defaults that differ from machine to machine, in words.
_FOUND = {
    "address": "a private socket of the user",
    "store_path": "in the user's cache folder",
    "worker_command": "`python -m inductord.worker`",
}


def settings_table() -> str:
    """Every setting of the daemon with its flag, its default and what it means, as Markdown."""
    flags = {parameter.name: parameter.opts[0] for parameter in serve.command.params}
    rows = ["| setting | flag | default | what it says |", "| --- | --- | --- | --- |"]
    rows += (
        f"| `{name}` | `{flags[name]}` | {_default(name, field)} | {field.description} |"
        for name, field in DaemonConfig.model_fields.items()
        if name in flags
    )
    return "\n".join(rows) + "\n"


def _default(name: str, field: FieldInfo) -> str:
    if name in _FOUND:
        return _FOUND[name]
    match field.default:
        case None | "":
            return "–"
        case bool(value):
            return "on" if value else "off"
        case ByteSize() as size:
            return size.human_readable(decimal=False)
        case float(seconds):
            return f"{seconds:g}"
        case value:
            return f"`{value}`"


TABLES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "settings": ("configuration.md", settings_table),
    "metrics": ("metrics.md", metrics_table),
}
"""File and maker of each table, by name."""


def replaced(text: str, name: str, table: str) -> str:
    """``text`` with ``table`` between the marks of ``name``.

    Raises:
        ValueError: when the marks are not there.
    """
    begin, end = (f"<!-- table {name}, made by docs/tables.py: {word} -->" for word in ("begin", "end"))
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"the marks are missing: {begin} and {end}")
    return f"{before}{begin}\n{table}{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    stale = []
    for name, (file, make) in TABLES.items():
        path = _DOCS / file
        text = path.read_text(encoding="utf-8")
        new = replaced(text, name, make())
        if new == text:
            continue
        stale.append(file)
        if not args.check:
            path.write_text(new, encoding="utf-8")
    if args.check and stale:
        sys.exit(f"stale: {', '.join(stale)}. Run: python docs/tables.py")


if __name__ == "__main__":
    main()
