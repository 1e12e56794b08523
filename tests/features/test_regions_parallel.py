"""Ways of parallelism with graphs in pieces, two ranks over gloo: bitwise what the same pieces give when the ranks compile them
by themselves; ranks with the same graph cut it alike, and stages of a pipeline share the layers of their different graphs."""

import collections
from collections.abc import Iterator

import pytest
from support.daemon import DaemonProcess
from support.training import NO_GRAPH_CACHE, Ended, Running, environment, torchrun, train

from inductord.daemon.client import AdminClient
from inductord.v1.cut_pb2 import GraphCut

pytestmark = [pytest.mark.features, pytest.mark.timeout(1800)]

RANKS = 2
JOB = torchrun(RANKS, "regions_parallel.py")
# Each rank asks for each of its graphs: none is found in the cache of the job, where the other rank's may be by then.
FORCE = {"INDUCTORD_REGIONS": "force", **NO_GRAPH_CACHE}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Ranks that nobody serves."""
    folder = tmp_path_factory.mktemp("alone")
    running = Running(JOB, environment(folder, f"unix:{folder}/nobody.sock", **FORCE))
    yield running
    running.close()


@pytest.fixture(scope="module")
def served(alone: Running, real_daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Ranks of the service, beside the others."""
    return train(tmp_path_factory.mktemp("served"), JOB, real_daemon.address, INDUCTORD_JOB="parallel regions", **FORCE)


@pytest.fixture(scope="module")
def cuts(served: Ended, real_daemon: DaemonProcess) -> dict[tuple[int, ...], list[GraphCut]]:
    """What the daemon was told, by the ranks that told it."""
    assert served.code == 0, served.err
    told: dict[tuple[int, ...], list[GraphCut]] = collections.defaultdict(list)
    with AdminClient(real_daemon.address) as client:
        for each in client.cuts(job="parallel regions").cuts:
            told[tuple(each.ranks)].append(each.cut)
    return told


def keys(cut: GraphCut, *, at_least: int = 1) -> set[str]:
    """Of the pieces that occur so often."""
    return {key.hex() for piece in cut.distinct_pieces if piece.times >= at_least for key in piece.keys}


def test_nothing_falls_back_and_each_key_is_compiled_once(served: Ended) -> None:
    assert served.fallbacks == {}, served.err
    assert served.count("led") == len(served.keys)
    assert served.count("requests") == served.count("led") + served.count("joined") + served.count("hits")
    for report in served.reports:
        assert report["regions"] == {"composed": "2", "whole": "1"}
        assert report["whole_graphs"] == {"subclass": "1"}


def test_ranks_with_the_same_graph_cut_it_alike(cuts: dict[tuple[int, ...], list[GraphCut]]) -> None:
    """FSDP2: the ranks hold different shards of the parameters. Tensor parallel: compiled whole, and why."""
    composed = [cut for cut in cuts[0, 1] if not cut.whole]
    whole = [cut for cut in cuts[0, 1] if cut.whole]
    assert [(cut.distinct, cut.distinct < cut.pieces) for cut in composed] == [(2, True)]
    assert [(cut.whole, cut.note) for cut in whole] == [("subclass", "an input is of type DTensor")]


def test_stages_of_a_pipeline_share_their_layers(served: Ended, cuts: dict[tuple[int, ...], list[GraphCut]]) -> None:
    (first,), (last,) = cuts[0,], cuts[1,]
    layers = keys(first, at_least=2)
    assert layers
    assert layers == keys(last, at_least=2)
    # Only what a stage begins or ends with is its own: each has one embedding or projection more.
    assert keys(first) - keys(last)
    assert keys(last) - keys(first)
    by_rank = [set(report["keys"]) for report in served.reports]
    assert by_rank[0] & by_rank[1] >= layers
    assert by_rank[0] - by_rank[1] == keys(first) - keys(last)


def test_the_numbers_are_those_of_the_same_pieces_compiled_by_the_ranks(served: Ended, alone: Running) -> None:
    by_itself = alone.finish()
    assert served.result == by_itself.result
    assert set(by_itself.fallbacks) == {"daemon_absent"}
    for report in by_itself.reports:
        assert report["regions"] == {"composed": "2", "whole": "1"}
