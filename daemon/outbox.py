"""What waits to be told to one waiting client. Bounded by construction: a question, the newest progress, an ending.

No gRPC and no decisions: the dispatcher puts, the client's stream gets.
"""

import asyncio
import dataclasses

from inductord.daemon.blobs import Outgoing
from inductord.v1.compiler_pb2 import Served
from inductord.worker.singleflight import AskGraph, Fail, Reject, Tell


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """The end of a wait: this artifact."""

    served: Served
    artifact: Outgoing


@dataclasses.dataclass(frozen=True, slots=True)
class Broken:
    """The end of a wait: the client's own upload went wrong."""

    error: BaseException


Ending = Delivery | Fail | Reject | Broken
Event = AskGraph | Tell | Ending


class Outbox:
    """One client's events. A newer progress replaces an older one that was not told yet; nothing follows an ending."""

    def __init__(self) -> None:
        self._question: AskGraph | None = None
        self._progress: Tell | None = None
        self._ending: Ending | None = None
        self._filled = asyncio.Event()

    def put(self, event: Event) -> None:
        """Leave an event for the client."""
        if self._ending is not None:
            return
        match event:
            case AskGraph():
                self._question = event
            case Tell():
                self._progress = event
            case _:
                self._ending = event
        self._filled.set()

    async def get(self) -> Event:
        """The next event: an ending at once, else a question, else progress."""
        while True:
            if self._ending is not None:
                return self._ending
            if self._question is not None:
                question, self._question = self._question, None
                return question
            if self._progress is not None:
                progress, self._progress = self._progress, None
                return progress
            self._filled.clear()
            await self._filled.wait()
