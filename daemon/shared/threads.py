"""Blocking calls with a time limit, in threads that do not outlive the daemon.

A thread pool of the standard library would: the interpreter waits for its threads at exit, so a file system that hangs
would keep a daemon from stopping.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class Threads:
    """At most ``limit`` calls at once; others wait. A call over its time is given up; its thread counts until it ends."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._free = asyncio.Semaphore(limit)

    async def run(self, work: Callable[[], _T], seconds: float) -> _T:
        """What ``work`` returns or raises.

        Raises:
            TimeoutError: it took longer than ``seconds``, the wait for its turn included.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_T] = loop.create_future()

        def ended(result: _T | None, error: BaseException | None) -> None:
            self._free.release()
            if outcome.done():  # given up
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)  # type: ignore[arg-type]  # one of the two is there

        def run() -> None:
            result: _T | None = None
            error: BaseException | None = None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 -- whoever asked gets it, whatever it is
                error = raised
            # The loop is closed when the daemon did not wait for this: then nobody wants to know.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ended, result, error)

        async with asyncio.timeout(seconds):
            await self._free.acquire()
            threading.Thread(target=run, name=self._name, daemon=True).start()
            return await outcome
