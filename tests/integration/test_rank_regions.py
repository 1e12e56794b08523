"""Graphs in pieces through the service: the layers of models of different depth are compiled once, and the numbers are those
of the same pieces compiled by the rank itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.training import NO_GRAPH_CACHE, Ended, Running, environment, python, train

from inductord.daemon.client import AdminClient

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

DEPTHS = ("3", "5")
AUTO = {"INDUCTORD_REGIONS": "auto", **NO_GRAPH_CACHE}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A rank that nobody serves."""
    folder = tmp_path_factory.mktemp("alone")
    running = Running(python("regions.py", *DEPTHS), environment(folder, f"unix:{folder}/nobody.sock", **AUTO))
    yield running
    with running.process:
        running.process.kill()


@pytest.fixture(scope="module")
def served(alone: Running, real_daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A rank of the service, beside the other."""
    return train(tmp_path_factory.mktemp("served"), python("regions.py", *DEPTHS), real_daemon.address, **AUTO)


def test_the_layers_of_both_models_are_compiled_once(served: Ended) -> None:
    (report,) = served.reports
    assert report["regions"] == {"composed": "2"}
    assert "whole_graphs" not in report
    distinct, pieces = int(report["region_distinct"]), int(report["region_pieces"])
    # What the deeper model has more of is pieces, not distinct ones. Forward and backward of each.
    assert pieces > distinct
    assert served.fallbacks == {}
    assert served.count("led") == len(served.keys) == distinct
    assert served.count("hits") == distinct


def test_the_daemon_can_say_how_each_graph_was_cut_and_which_piece_a_key_is_of(
    served: Ended, real_daemon: DaemonProcess
) -> None:
    (report,) = served.reports
    with AdminClient(real_daemon.address) as client:
        told = {key: client.cuts(key=key).cuts for key in served.keys}
    # Each key is forward or backward of a piece that all graphs with that piece have.
    cuts = {
        told_cut.cut.SerializeToString(deterministic=True): told_cut.cut for each in told.values() for told_cut in each
    }
    assert len(cuts) == len(DEPTHS)
    assert sum(cut.pieces for cut in cuts.values()) == int(report["region_pieces"])
    assert sum(cut.distinct for cut in cuts.values()) == int(report["region_distinct"])
    for cut in cuts.values():
        assert (cut.whole, len(cut.distinct_pieces)) == ("", cut.distinct)
        assert sum(piece.times for piece in cut.distinct_pieces) == cut.pieces
        assert {len(piece.keys) for piece in cut.distinct_pieces} == {2}
    assert {key.hex() for cut in cuts.values() for piece in cut.distinct_pieces for key in piece.keys} == served.keys


def test_the_numbers_are_those_of_the_same_pieces_compiled_by_the_rank(served: Ended, alone: Running) -> None:
    by_itself = alone.finish()
    assert served.result == by_itself.result
    (report,) = by_itself.reports
    assert report["regions"] == {"composed": "2"}
    assert set(by_itself.fallbacks) == {"daemon_absent"}


def test_a_second_job_with_a_deeper_model_compiles_nothing(
    served: Ended, real_daemon: DaemonProcess, tmp_path: Path
) -> None:
    """Through the other door, and with a word of the script where the environment says nothing."""
    command = python("regions.py", "--backend", "inductord", "--regions", "force", "7")
    ended = train(tmp_path, command, real_daemon.address, INDUCTORD=None, INDUCTORD_REGIONS=None, **NO_GRAPH_CACHE)
    assert ended.count("led") == 0, ended.err
    assert ended.count("hits") == ended.count("requests") > 0
    assert ended.keys <= served.keys
    (report,) = ended.reports
    assert report["regions"] == {"composed": "1"}


def test_a_second_start_traces_no_region(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    """In a new process on empty caches of its own, with fixed sizes and with symbolic ones."""
    command, force = python("regions.py", "--dynamic", "3", "3"), {"INDUCTORD_REGIONS": "force"}
    first = train(tmp_path / "first", command, real_daemon.address, **force)
    second = train(tmp_path / "second", command, real_daemon.address, INDUCTORD_JOB="second-start", **force)
    distinct = first.reports[0]["region_distinct"]
    # Each time Dynamo begins once more with symbolic sizes: PyTorch settles a float of the embedding, in its first piece.
    again = {"regions skipped": "1"}
    assert first.reports[0]["remote_caches"] == {"regions miss": distinct, "regions kept": distinct, **again}, first.err
    assert first.result["traced"] == int(distinct) + 1
    assert second.reports[0]["remote_caches"] == {"regions hit": distinct, **again}, second.err
    assert second.result == {"models": first.result["models"], "traced": 1}
    assert first.reports[0]["regions"] == second.reports[0]["regions"] == {"composed": "2"}
    assert (second.count("led"), second.fallbacks, second.keys) == (0, {}, first.keys)
    # It knows the graphs that it did not trace.
    with AdminClient(real_daemon.address) as client:
        told = client.cuts(job="second-start").cuts
    assert len(told) == 2
    assert {key.hex() for each in told for piece in each.cut.distinct_pieces for key in piece.keys} == first.keys


def test_buckets_of_ddp_share_their_layers(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    """Two of them are cut. In the first that would save a third, too little in a bucket: it is compiled whole, its backward
    when it runs."""
    ended = train(tmp_path, python("ddp_buckets.py"), real_daemon.address, INDUCTORD_REGIONS="auto", **NO_GRAPH_CACHE)
    losses = ended.result
    assert losses["compiled"] == pytest.approx(losses["eager"], rel=1e-4)
    (report,) = ended.reports
    assert report["regions"] == {"composed": "2", "whole": "1"}
    assert report["whole_graphs"] == {"saves_too_little": "1"}
    assert ended.fallbacks == {}, ended.err
    # The start of a bucket and a layer within it: forward and backward of each.
    assert ended.count("hits") == 4
    assert ended.count("led") == len(ended.keys)
