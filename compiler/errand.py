"""A compile that the daemon is asked for while this thread goes on with other work.

The conversation runs in a thread of its own. What touches the graph, its serialisation, runs in the thread that sent the
errand: nothing else may look at a graph while that thread traces.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any

from inductord.compiler.client import Received
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.v1.compiler_pb2 import Progress

Serialize = Callable[[], bytes]
Talk = Callable[[Serialize, Callable[[Progress], None]], Received]

_WANTED, _UNDERWAY, _DONE = "wanted", "underway", "done"


class Errand:
    """One conversation. ``talk`` has it: it is given a function that serialises the graph and one that is told of progress;
    it returns the artifact or raises.

    ``patience``: seconds after which the thread is no longer expected to begin serialising: it may have dropped this.
    """

    def __init__(self, talk: Talk, patience: float) -> None:
        self._talk = talk
        self._patience = patience
        self._events: queue.SimpleQueue[tuple[str, Progress | None]] = queue.SimpleQueue()
        self._unread: list[tuple[str, Progress | None]] = []
        self._begun: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._serialized: queue.SimpleQueue[bytes | BaseException] = queue.SimpleQueue()
        self._received: Received | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="inductord-errand", daemon=True).start()

    def _run(self) -> None:
        try:
            self._received = self._talk(self._serialize, lambda progress: self._events.put((_UNDERWAY, progress)))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
        self._events.put((_DONE, None))

    def _serialize(self) -> bytes:
        self._events.put((_WANTED, None))
        try:
            self._begun.get(timeout=self._patience)
        except queue.Empty:
            raise Unavailable(
                Fallback.WAIT_EXCEEDED, f"the graph was wanted and this rank was busy for {self._patience:g} s"
            ) from None
        answer = self._serialized.get()
        if isinstance(answer, BaseException):
            try:
                raise answer
            finally:
                del answer  # it holds frames, this one among them
        return answer

    def send_off(self, serialize: Serialize) -> None:
        """Return when the daemon has what it needs for now: the graph, or the word that another rank sends it."""
        event, news = self._events.get()
        if event == _WANTED:
            self._answer(serialize)
        else:
            self._unread.append((event, news))

    def _answer(self, serialize: Serialize) -> None:
        self._begun.put(None)
        try:
            self._serialized.put(serialize())
        except BaseException as error:  # noqa: BLE001 - it ends the conversation, which raises it to who waits
            self._serialized.put(error)

    def result(self, serialize: Serialize, progress: Callable[[Progress], Any]) -> Received:
        """Wait for the end of the conversation.

        Raises:
            Whatever the conversation or ``serialize`` raised.
        """
        while True:
            event, news = self._unread.pop() if self._unread else self._events.get()
            if event == _WANTED:
                self._answer(serialize)
            elif event == _DONE:
                break
            elif news is not None:
                progress(news)
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it holds frames, this one among them
        assert self._received is not None
        return self._received
