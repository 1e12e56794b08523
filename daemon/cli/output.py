"""Where output goes and how it looks: results on stdout, colour only on a terminal.

Rich decides about colour (it honours NO_COLOR and TERM); this module adds that tables which go to a file or pipe are
not folded to 80 columns.
"""

import json
import sys
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table

_FILE_WIDTH = 200


def console(stream: TextIO | None = None) -> Console:
    """A console on ``stream``, stdout when absent."""
    stream = sys.stdout if stream is None else stream
    return Console(file=stream, highlight=False, soft_wrap=False, width=None if stream.isatty() else _FILE_WIDTH)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without frames; the columns named in ``right`` are numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=name in right)
    return made


def facts() -> Table:
    """A table of names and values, without header."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    return made


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON document on stdout. ``indent=None`` keeps it on one line."""
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False) + "\n")
    sys.stdout.flush()
