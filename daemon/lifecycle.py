"""When the daemon stops: signals, requests and idleness only ask; one place waits and says how long to drain.

A second signal leaves at once: workers die with their daemon, and the next one clears away what stays behind.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterator

from inductord.daemon.activity import Activity

_log = logging.getLogger("inductord.server")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Set once; ``drain_seconds`` is then how long running compiles may go on."""

    def __init__(self, drain_seconds: float) -> None:
        self.drain_seconds = drain_seconds
        self._asked = asyncio.Event()

    @property
    def asked(self) -> bool:
        """Whether the daemon is to stop."""
        return self._asked.is_set()

    def ask(self, reason: str, drain_seconds: float | None = None) -> None:
        """Ask the daemon to stop. The first to ask decides the drain time; None keeps the configured one."""
        if self.asked:
            return
        _log.info("stopping: %s", reason)
        if drain_seconds is not None:
            self.drain_seconds = drain_seconds
        self._asked.set()

    async def wait(self) -> None:
        """Until somebody asks."""
        await self._asked.wait()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT ask while the context lasts; the second one ends the process."""
        loop = asyncio.get_running_loop()

        def received(number: signal.Signals) -> None:
            if self.asked:
                _log.warning("%s while stopping: leaving at once", number.name)
                os._exit(128 + number)
            self.ask(number.name)

        for number in _SIGNALS:
            loop.add_signal_handler(number, received, number)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def when_idle(self, activity: Activity, seconds: float) -> None:
        """Ask once nobody used the daemon for ``seconds``."""
        while (left := seconds - activity.idle_seconds()) > 0:  # noqa: ASYNC110 -- time is what is waited for
            await asyncio.sleep(left)
        self.ask(f"nobody used this daemon for {seconds:g} s")
