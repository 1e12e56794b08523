"""Where output goes and how it looks: results on stdout, colour only on a terminal.

Rich decides about colour (it honours NO_COLOR and TERM); this module adds that tables which go to a file or pipe are
not folded to 80 columns.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal

from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

_FILE_WIDTH = 200
# Rich's own boxes put a space on both sides of the gap between columns, which is room that 80 columns do not have.
_LINE_UNDER_HEAD = box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n")


def console() -> Console:
    """A console on stdout."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)


def display(renderable: RenderableType) -> None:
    """Draw on stdout. Rich fills lines up to the width of the table; files and pipes are spared that."""
    screen = console()
    if screen.is_terminal:
        screen.print(renderable)
        return
    with screen.capture() as capture:
        screen.print(renderable)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))
    sys.stdout.flush()


def table(*columns: str, right: Collection[str] = (), whole: Collection[str] = ()) -> Table:
    """A table without frames. The columns named in ``right`` are numbers. Where the terminal is too narrow the others go on in
    the next line, those named in ``whole`` last."""
    made = Table(box=_LINE_UNDER_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        made.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
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


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, when that is a terminal. What it gives is called with how many of ``total`` are done."""
    bar = Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True)
    )
    bar.disable = not sys.stderr.isatty()
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
