"""Both doors of a rank: ``backend="inductord"`` and the environment. Each gives what plain Inductor gives, or says why not."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.daemon import DaemonProcess
from support.training import JOBS, NO_GRAPH_CACHE, Ended, Plain, python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

MLP = ("mlp.py", "--width", "23")
GRAPHS = 3
"""Of the small network: forward, backward, inference."""


def served(ended: Ended) -> tuple[int, int, dict[str, int]]:
    return ended.count("requests"), ended.count("hits") + ended.count("joined") + ended.count("led"), ended.fallbacks


VARIANTS: list[dict[str, Any]] = [
    {"mode": "reduce-overhead"},
    {"options": {"epilogue_fusion": False, "cpp.simdlen": 256}},
    # One graph of each kind serves all batches but that of 1: Dynamo specialises it, and no other graph may serve it.
    {"dynamic": True, "batches": [4, 6, 1, 9]},
]


def test_the_backend_takes_what_inductor_takes(real_daemon: DaemonProcess, plain: Plain, tmp_path: Path) -> None:
    """Each variant changes what is compiled, so it is a compile of its own, also for the daemon."""
    graphs = len(VARIANTS) * GRAPHS + 2
    before = real_daemon.status().totals.compiles
    command = python("mlp.py", "--width", "20", "--variants", json.dumps(VARIANTS))
    plain.start(command)
    # Without INDUCTORD=1: the script itself asks.
    asking = [*command, "--backend", "inductord"]
    ended = train(tmp_path / "rank", asking, real_daemon.address, INDUCTORD=None, **NO_GRAPH_CACHE)
    assert served(ended) == (graphs, graphs, {}), ended.err
    assert len(ended.keys) == real_daemon.status().totals.compiles - before == graphs
    assert ended.result == plain(command)


def test_mistakes_are_answered_in_inductors_words(tmp_path: Path) -> None:
    messages = train(tmp_path, python("mistakes.py"), None).result
    for mistake, words in messages["inductor"].items():
        assert words.startswith("RuntimeError: "), mistake
        assert words.split(", ")[0].strip() in messages["inductord"][mistake]


def test_an_unmodified_script_by_environment(real_daemon: DaemonProcess, plain: Plain, tmp_path: Path) -> None:
    command = python(*MLP)
    plain.start(command)
    first, second = (train(tmp_path / name, command, real_daemon.address) for name in ("first", "second"))
    assert first.result == second.result == plain(command)
    assert (served(first), first.count("led")) == ((GRAPHS, GRAPHS, {}), GRAPHS), first.err
    assert (served(second), second.count("hits")) == ((GRAPHS, GRAPHS, {}), GRAPHS), second.err
    assert first.keys == second.keys
    assert (first.err, second.err) == ("", "")


@pytest.fixture
def alone(real_daemon: DaemonProcess, plain: Plain) -> Iterator[Callable[..., Ended]]:
    """Runs ranks that must not ask the daemon. They find the C++ libraries of the plain runs, but not their graphs."""
    before = real_daemon.status().totals.requests

    def run(command: Sequence[str], **variables: str | None) -> Ended:
        return train(plain.folder, command, real_daemon.address, **NO_GRAPH_CACHE, **variables)

    yield run
    assert real_daemon.status().totals.requests == before


def test_inductord_0_turns_the_backend_into_plain_inductor(alone: Callable[..., Ended], plain: Plain) -> None:
    ended = alone(python(*MLP, "--backend", "inductord"), INDUCTORD="0")
    assert ended.result == plain(python(*MLP))
    assert served(ended) == (0, 0, {"disabled": GRAPHS})
    assert ended.err == ""  # the user asked for it


@pytest.mark.parametrize(("version", "backend"), [("2.10.1", "inductord"), ("2.16.0+cu140", "inductor")])
def test_an_unknown_torch_gets_plain_inductor_and_a_clear_message(
    alone: Callable[..., Ended], plain: Plain, version: str, backend: str
) -> None:
    command = python("with_torch.py", version, str(JOBS / MLP[0]), *MLP[1:], "--backend", backend)
    ended = alone(command)
    assert ended.result == plain(python(*MLP))
    assert served(ended) == (0, 0, {"unsupported_torch": 1})
    assert f"torch {version} is not in the range 2.11 <= torch < 2.16" in ended.err
    assert ended.err.count("unsupported_torch") == 1


def test_what_is_compiled_into_a_file_runs_where_there_is_no_daemon(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    """One graph, compiled for two kinds of file."""
    command = python("standalone.py", str(tmp_path))
    plain = train(tmp_path / "plain", command, None)
    ended = train(tmp_path / "rank", command, real_daemon.address)
    assert (served(ended), ended.count("hits"), len(ended.keys)) == ((2, 2, {}), 1, 1), ended.err
    again = train(tmp_path / "again", [*command, "--load"], None)
    assert again.result == ended.result == plain.result
