"""A compile that the daemon is asked for while this thread goes on with other work.

The conversation runs in a thread of its own. What touches the graph, to serialise or to compile it, runs in the thread that
sent the errand: nothing else may look at a graph while that thread traces.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any

from inductord.compiler.client import Received
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.v1.compiler_pb2 import Progress

Give = Callable[[bool], bytes]
"""The graph, or the artifact that is compiled of it here when the argument is true."""

Talk = Callable[[Give, Callable[[Progress], None]], Received]

_WANTED, _UNDERWAY, _DONE = "wanted", "underway", "done"


class Errand:
    """One conversation. ``talk`` has it: it is given a function that gives the graph and one that is told of progress; it
    returns the artifact or raises.

    ``patience``: seconds after which the thread is no longer expected to begin serialising: it may have dropped this.
    """

    def __init__(self, talk: Talk, patience: float) -> None:
        self._talk = talk
        self._patience = patience
        self._events: queue.SimpleQueue[tuple[str, bool | Progress | None]] = queue.SimpleQueue()
        self._unread: list[tuple[str, bool | Progress | None]] = []
        self._begun: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._given: queue.SimpleQueue[bytes | BaseException] = queue.SimpleQueue()
        self._received: Received | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="inductord-errand", daemon=True).start()

    def _run(self) -> None:
        try:
            self._received = self._talk(self._give, lambda progress: self._events.put((_UNDERWAY, progress)))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
        self._events.put((_DONE, None))

    def _give(self, compiled: bool) -> bytes:
        self._events.put((_WANTED, compiled))
        try:
            self._begun.get(timeout=self._patience)
        except queue.Empty:
            raise Unavailable(
                Fallback.WAIT_EXCEEDED, f"the graph was wanted and this rank was busy for {self._patience:g} s"
            ) from None
        answer = self._given.get()
        if isinstance(answer, BaseException):
            try:
                raise answer
            finally:
                del answer  # it holds frames, this one among them
        return answer

    def send_off(self, give: Give) -> None:
        """Return when the daemon has what it needs for now: the graph, or the word that another rank sends it."""
        event, news = self._events.get()
        if event == _WANTED:
            self._answer(give, bool(news))
        else:
            self._unread.append((event, news))

    def _answer(self, give: Give, compiled: bool) -> None:
        self._begun.put(None)
        try:
            self._given.put(give(compiled))
        except BaseException as error:  # noqa: BLE001 - it ends the conversation, which raises it to who waits
            self._given.put(error)

    def result(self, give: Give, progress: Callable[[Progress], Any]) -> Received:
        """Wait for the end of the conversation.

        Raises:
            Whatever the conversation or ``give`` raised.
        """
        while True:
            event, news = self._unread.pop() if self._unread else self._events.get()
            if event == _WANTED:
                self._answer(give, bool(news))
            elif event == _DONE:
                break
            elif isinstance(news, Progress):
                progress(news)
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it holds frames, this one among them
        assert self._received is not None
        return self._received
