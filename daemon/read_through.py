"""Between single-flight's question for a graph and the rank: first see whether the shared store has the artifact.

All who ask for the key meanwhile wait in the same flight, so N ranks cause one read; who leads may change while it runs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from inductord.daemon.orders import Order
from inductord.daemon.tenancy import short

_log = logging.getLogger("inductord.dispatch")

_T = TypeVar("_T")


class ReadThrough(Generic[_T]):
    """``find`` gives what the shared store has, stored here by then, or None; ``found`` is told what it gave."""

    def __init__(self, find: Callable[[Order], Awaitable[_T | None]], found: Callable[[str, _T], None]) -> None:
        self._find = find
        self._found = found
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._questions: dict[str, Callable[[], None]] = {}
        self._missed: set[str] = set()

    def ask(self, order: Order, question: Callable[[], None]) -> None:
        """``question`` asks a rank for the graph. It is put when the shared store does not have the artifact; a newer
        one for the same key takes the place of one that was not put yet."""
        key = order.key
        if key in self._missed:
            question()
            return
        self._questions[key] = question
        if key not in self._reading:
            self._reading[key] = asyncio.create_task(self._read(order), name=f"look for {short(key)}")

    def forget(self, key: str) -> None:
        """Nobody wants the graph of ``key`` any more. A read that is under way goes on: what it brings is stored."""
        self._questions.pop(key, None)
        self._missed.discard(key)

    async def close(self) -> None:
        """Give up what is under way."""
        reading = set(self._reading.values())
        for task in reading:
            task.cancel()
        if reading:
            await asyncio.wait(reading)

    async def _read(self, order: Order) -> None:
        key = order.key
        try:
            artifact = await self._find(order)
        except Exception:  # noqa: BLE001 -- a defect must not leave the rank waiting; logged with its traceback
            _log.exception("looking for %s in the shared store failed", short(key))
            artifact = None
        finally:
            del self._reading[key]
        question = self._questions.pop(key, None)
        if artifact is not None:
            self._found(key, artifact)
        elif question is not None:
            self._missed.add(key)
            question()
