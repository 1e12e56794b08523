"""A compile that is asked for while the thread that asks does other things."""

import queue
import threading
from collections.abc import Callable

import pytest

from inductord.compiler.client import Received
from inductord.compiler.errand import Errand, Give
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.v1.compiler_pb2 import SERVED_LED, Progress

pytestmark = pytest.mark.unit

ARTIFACT = Received(b"artifact", SERVED_LED, 1.0)
Tell = Callable[[Progress], None]


def ignore(_: Progress) -> None:
    """Nobody looks."""


def never(_: bool) -> bytes:
    raise AssertionError("nobody wants the graph")


def test_the_graph_is_serialised_by_the_thread_that_asks() -> None:
    sent: list[bytes] = []
    serialised_by: list[int] = []

    def talk(give: Give, _: Tell) -> Received:
        sent.append(give(False))
        return ARTIFACT

    def serialize(_: bool) -> bytes:
        serialised_by.append(threading.get_ident())
        return b"graph"

    errand = Errand(talk, patience=60)
    errand.send_off(serialize)
    assert errand.result(never, ignore) == ARTIFACT
    assert sent == [b"graph"]
    assert serialised_by == [threading.get_ident()]


def test_it_may_be_asked_for_the_graph_and_then_for_what_is_compiled_of_it() -> None:
    asked: list[bool] = []

    def talk(give: Give, _: Tell) -> Received:
        give(False)
        return Received(give(True), SERVED_LED, 1.0)

    def given(compiled: bool) -> bytes:
        asked.append(compiled)
        return b"artifact" if compiled else b"graph"

    errand = Errand(talk, patience=60)
    errand.send_off(given)
    assert errand.result(given, ignore).artifact == b"artifact"
    assert asked == [False, True]


def test_it_does_not_wait_for_the_artifact() -> None:
    go_on = threading.Event()

    def talk(_: Give, tell: Tell) -> Received:
        tell(Progress(elapsed_seconds=1))
        assert go_on.wait(60)
        tell(Progress(elapsed_seconds=2))
        return ARTIFACT

    errand = Errand(talk, patience=60)
    errand.send_off(never)  # another rank sends it
    go_on.set()
    told: list[float] = []
    assert errand.result(never, lambda progress: told.append(progress.elapsed_seconds)) == ARTIFACT
    assert told == [1, 2]


def test_the_graph_may_be_wanted_late() -> None:
    """Whoever was to send it went away."""

    def talk(give: Give, tell: Tell) -> Received:
        tell(Progress())
        return Received(give(False), SERVED_LED, 1.0)

    errand = Errand(talk, patience=60)
    errand.send_off(never)
    assert errand.result(lambda _: b"graph", ignore).artifact == b"graph"


@pytest.mark.parametrize("in_serialising", [True, False])
def test_what_is_raised_reaches_who_waits(in_serialising: bool) -> None:
    def talk(give: Give, _: Tell) -> Received:
        give(False)
        raise ConnectionError("lost")

    def serialize(_: bool) -> bytes:
        if in_serialising:
            raise ValueError("cannot")
        return b"graph"

    errand = Errand(talk, patience=60)
    errand.send_off(serialize)
    with pytest.raises(ValueError if in_serialising else ConnectionError, match="cannot" if in_serialising else "lost"):
        errand.result(never, ignore)


def test_a_graph_that_nobody_gives_is_not_waited_for_without_end() -> None:
    """The thread that sent the errand dropped it: others must not wait for this rank."""
    refused: queue.SimpleQueue[Exception] = queue.SimpleQueue()

    def talk(give: Give, tell: Tell) -> Received:
        tell(Progress())  # another rank was to send it
        try:
            give(False)
        except Unavailable as lost:
            refused.put(lost)
            raise
        raise AssertionError("there is no graph")

    errand = Errand(talk, patience=0.01)
    errand.send_off(never)
    lost = refused.get(timeout=60)
    assert isinstance(lost, Unavailable)
    assert lost.reason is Fallback.WAIT_EXCEEDED
    # Whoever asks for the result after all is told the same.
    with pytest.raises(Unavailable, match="busy"):
        errand.result(lambda _: b"too late", ignore)
