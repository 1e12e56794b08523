"""Which blocks become one piece."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductord.compiler.regions.merge import JOIN_NODES, SMALL_NODES, merge

pytestmark = pytest.mark.unit

SMALL, LARGE = 2, 4 * JOIN_NODES


def runs(row: str, sizes: dict[str, int] | None = None) -> list[str]:
    """``row``: a letter a block, capital letters large."""
    letters = sorted(set(row))
    given = [(sizes or {}).get(letter, LARGE if letter.isupper() else SMALL) for letter in letters]
    return [row[start:end] for start, end in merge([letters.index(letter) for letter in row], given)]


@pytest.mark.parametrize(
    ("row", "pieces"),
    [
        ("ABC", ["ABC"]),  # nothing repeats
        ("ABCABCABC", ["ABC", "ABC", "ABC"]),
        ("XABABABY", ["X", "AB", "AB", "AB", "Y"]),
        ("XBABABABY", ["X", "B", "A", "B", "A", "B", "A", "B", "Y"]),  # the first layer starts otherwise
        ("AAABAAAB", ["A", "A", "A", "B", "A", "A", "A", "B"]),  # kinds that take turns
        ("XaBaBaBY", ["X", "aB", "aB", "aB", "Y"]),
        ("AbCAbDAbC", ["Ab", "C", "Ab", "D", "Ab", "C"]),
        ("AxBAxCAxB", ["Ax", "B", "Ax", "C", "Ax", "B"]),
    ],
)
def test_pieces(row: str, pieces: list[str]) -> None:
    assert runs(row) == pieces


def test_small_blocks_that_follow_themselves_are_taken_together() -> None:
    pieces = runs("X" + "a" * 40 + "Y")
    assert pieces[0] == "X"
    assert pieces.count("a" * (SMALL_NODES // SMALL)) == 5


def test_depth_does_not_decide() -> None:
    assert {frozenset(runs("XB" + "AB" * depth + "Y")) for depth in (2, 9, 90)} == {frozenset({"X", "A", "B", "Y"})}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.lists(st.integers(1, 60), min_size=6, max_size=6))
def test_every_block_is_in_one_piece(blocks: list[int], sizes: list[int]) -> None:
    covered = [at for start, end in merge(blocks, sizes) for at in range(start, end)]
    assert covered == list(range(len(blocks)))
