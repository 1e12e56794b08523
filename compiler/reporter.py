"""When this rank tells the daemon its counts: after each graph, once more when what followed it is over, and at exit.

What follows a graph is the rest of its frame, whose times PyTorch knows at the end only, and the graph's first launch. A rank
that waits or trains is not held up: reports are bounded in time, and the later ones come from a thread of their own.
"""

import atexit
import logging
import os
import threading
import time

from inductord.compiler.client import Client
from inductord.compiler.telemetry import Telemetry
from inductord.compiler.unavailable import Unavailable
from inductord.v1.compiler_pb2 import RankStats, ReportRankRequest

log = logging.getLogger("inductord")

_SETTLE_S = 2.0


class Reporter:
    """Reports of one process. Safe to use from several threads."""

    def __init__(self, client: Client, telemetry: Telemetry) -> None:
        self._client = client
        self._telemetry = telemetry
        self._lock = threading.Lock()
        # One at a time, so that no report overtakes another.
        self._sending = threading.Lock()
        self._sent = RankStats()
        self._timer: threading.Timer | None = None

    def now(self) -> None:
        """Report, unless nothing changed."""
        with self._sending:
            self._send()

    def _send(self) -> None:
        timeline = self._telemetry.timeline
        report, trace, cuts = self._telemetry.report(), timeline.trace(), self._telemetry.cuts.untold()
        if report == self._sent and not trace.spans and not cuts:
            return
        sent = time.time()
        try:
            who = self._telemetry.requester()
            answer = self._client.report(ReportRankRequest(requester=who, stats=report, trace=trace, cuts=cuts))
        except Unavailable as lost:
            # The counts are cumulative: the next report carries these too, and the file at exit has them all.
            log.debug("inductord: the daemon did not take this rank's counts: %s", lost)
            return
        if answer is not None:
            timeline.answered(answer.taken, answer.answered_unix, sent, time.time())
            self._telemetry.reported(report)
            self._telemetry.cuts.told(cuts)
            del report.keys[:]
            self._sent = report

    def soon(self) -> None:
        """Report in a moment, together with what comes until then."""
        with self._lock:
            if self._timer is None or not self._timer.is_alive():
                self._timer = threading.Timer(_SETTLE_S, self.now)
                self._timer.daemon = True
                self._timer.start()

    def at_exit(self) -> None:
        """Have the last report sent when the process ends."""
        atexit.register(self._last, os.getpid())

    def _last(self, pid: int) -> None:
        if os.getpid() != pid:  # a forked data loader inherits the handler, not the counts
            return
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
        self.now()
