"""How graphs were cut, as text for people. Pure. Names of nodes come from ranks, so they are made plain."""

from collections.abc import Iterable, Iterator, Sequence

from inductord.compiler.regions.render import headline, left_out, piece_lines
from inductord.daemon.cli import words
from inductord.v1.admin_pb2 import GetCutsResponse, JobCut


def as_text(answer: GetCutsResponse, key: str = "") -> Iterator[str]:
    """Line by line. ``key``: hex digits that keys begin with, to be pointed at."""
    for number, told in enumerate(answer.cuts):
        if number:
            yield ""
        yield from map(words.plain, _cut(told, key))
    if answer.dropped:
        yield f"{words.count(answer.dropped, 'older graph')} are not kept."


def _cut(told: JobCut, key: str) -> Iterator[str]:
    cut = told.cut
    yield f"job {told.job}, {'ranks' if len(told.ranks) > 1 else 'rank'} {words.ranges(told.ranks)}: {headline(cut)}"
    for line, piece in zip(piece_lines(cut), cut.distinct_pieces, strict=True):
        yield f"  {line}"
        yield from _keys(piece.keys, key)
    if more := left_out(cut):
        yield f"  {more}"
    yield from _keys(cut.keys, key)


def _keys(keys: Sequence[bytes], wanted: str) -> Iterator[str]:
    if keys:
        yield f"     compiled as {', '.join(_pointed_at((each.hex() for each in keys), wanted))}"


def _pointed_at(keys: Iterable[str], wanted: str) -> Iterator[str]:
    for key in keys:
        yield f"{words.short_key(key)}{' (this key)' if wanted and key.startswith(wanted) else ''}"
