"""How graphs were cut, as ranks told it: the newest, bounded in bytes. For reports only.

Pure. Ranks are clients: `orders.check_cuts` bounds what comes here.
"""

import bisect
import dataclasses
from collections.abc import Iterable, Iterator

from inductord.v1.admin_pb2 import JobCut
from inductord.v1.compiler_pb2 import Requester
from inductord.v1.cut_pb2 import GraphCut

MAX_BYTES = 512 * 1024
"""Of all jobs of a tenant. A cut has one to two thousand."""

MAX_RANKS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class _Told:
    ranks: list[int] = dataclasses.field(default_factory=list)
    keys: frozenset[bytes] = frozenset()


class CutTable:
    """The cuts that were told last. ``dropped``: how many older ones made room."""

    def __init__(self) -> None:
        self.dropped = 0
        self._bytes = 0
        # By job and content, told last at the end. Messages as bytes take a third of the memory.
        self._told: dict[tuple[str, bytes], _Told] = {}

    def add(self, requester: Requester, cuts: Iterable[GraphCut]) -> None:
        """A rank tells how graphs were cut. Without a job's name nobody could ask for them."""
        if not requester.job:
            return
        for cut in cuts:
            name = requester.job, cut.SerializeToString(deterministic=True)
            told = self._told.pop(name, None)
            if told is None:
                told = _Told(keys=frozenset(_keys(cut)))
                self._bytes += len(name[1])
            self._told[name] = told
            if requester.rank not in told.ranks:
                bisect.insort(told.ranks, requester.rank)
                del told.ranks[MAX_RANKS:]
        while self._bytes > MAX_BYTES:
            oldest = next(iter(self._told))
            del self._told[oldest]
            self._bytes -= len(oldest[1])
            self.dropped += 1

    def of_key(self, prefix: str) -> list[JobCut]:
        """Cuts with a key that begins with these hex digits, told last first."""
        return list(
            self._messages(
                name for name, told in self._told.items() if any(key.hex().startswith(prefix) for key in told.keys)
            )
        )

    def of_job(self, job: str) -> list[JobCut]:
        """Cuts of a job, or, without a name, of the job of which one was told last; told last first."""
        wanted = job or next(reversed(self._told), ("", b""))[0]
        return list(self._messages(name for name in self._told if name[0] == wanted))

    def _messages(self, names: Iterable[tuple[str, bytes]]) -> Iterator[JobCut]:
        for job, content in reversed(list(names)):
            yield JobCut(job=job, cut=GraphCut.FromString(content), ranks=self._told[job, content].ranks)


def _keys(cut: GraphCut) -> Iterator[bytes]:
    yield from cut.keys
    for piece in cut.distinct_pieces:
        yield from piece.keys
