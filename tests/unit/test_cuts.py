"""How graphs were cut, as the daemon keeps it."""

import pytest

from inductord.daemon import cuts
from inductord.daemon.cuts import CutTable
from inductord.daemon.errors import InvalidRequest
from inductord.daemon.orders import MAX_CUT_BYTES, MAX_CUTS, check_cuts
from inductord.v1.compiler_pb2 import Requester
from inductord.v1.cut_pb2 import CutPiece, GraphCut

pytestmark = pytest.mark.unit

KEYS = [bytes([number]) * 32 for number in range(1, 5)]


def a_cut(nodes: int = 9, *keys: bytes) -> GraphCut:
    return GraphCut(nodes=nodes, pieces=2, distinct=1, distinct_pieces=[CutPiece(times=2, keys=keys)])


def test_ranks_that_tell_the_same_are_one_entry_told_last_first() -> None:
    table = CutTable()
    for rank in range(cuts.MAX_RANKS + 3, -1, -1):
        table.add(Requester(job="a", rank=rank), [a_cut(9, *KEYS[:2])])
    table.add(Requester(job="b"), [a_cut(9, *KEYS[:2]), GraphCut(nodes=5, whole="too_small", keys=KEYS[2:3])])
    table.add(Requester(), [a_cut(7, KEYS[3])])  # of no job
    assert [(told.job, told.cut.nodes) for told in table.of_key(KEYS[1].hex()[:6])] == [("b", 9), ("a", 9)]
    (of_a,) = table.of_job("a")
    assert list(of_a.ranks) == list(range(cuts.MAX_RANKS))
    assert [told.cut.whole for told in table.of_job("")] == ["too_small", ""]
    table.add(Requester(job="a", rank=1), [a_cut(9, *KEYS[:2])])
    assert [told.job for told in table.of_job("")] == ["a"]
    assert (table.of_key(KEYS[3].hex()), table.of_job("c"), table.dropped) == ([], [], 0)


def test_the_oldest_make_room_and_are_counted() -> None:
    table = CutTable()
    large = GraphCut(note="x" * (MAX_CUT_BYTES // 2))
    most = cuts.MAX_BYTES // large.ByteSize()
    for number in range(most + 2):
        large.nodes = number + 1
        table.add(Requester(job=f"job{number}"), [large])
    assert 2 <= table.dropped <= 3
    assert table.of_job("job0") == []
    assert [told.cut.nodes for told in table.of_job(f"job{most + 1}")] == [most + 2]


@pytest.mark.parametrize(
    "wrong",
    [
        [GraphCut()] * (MAX_CUTS + 1),
        [GraphCut(note="x" * MAX_CUT_BYTES)],
        [GraphCut(keys=[b"short"])],
        [a_cut(1, b"x" * 33)],
    ],
)
def test_what_is_too_much_is_refused(wrong: list[GraphCut]) -> None:
    with pytest.raises(InvalidRequest):
        check_cuts(wrong)
    assert check_cuts([a_cut(1, KEYS[0])])
