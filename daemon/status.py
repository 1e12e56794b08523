"""The state of the daemon as one message. Reads the parts, changes nothing, and is cheap enough for a live view."""

import os
import time
from collections.abc import Callable

import psutil

from inductord.compiler.versions import this_version
from inductord.daemon.dispatch import Dispatcher
from inductord.daemon.jobs import JobTable
from inductord.daemon.ledger import Ledger
from inductord.daemon.store import Store
from inductord.v1.admin_pb2 import JobSummary, RunningCompile, Status
from inductord.worker.pool import Pool


class StatusBoard:
    """``address`` and ``metrics_address``: where the daemon really listens."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        pool: Pool,
        store: Store,
        ledger: Ledger,
        jobs: JobTable,
        address: str,
        metrics_address: str,
        draining: Callable[[], bool],
    ) -> None:
        self._dispatcher = dispatcher
        self._pool = pool
        self._store = store
        self._ledger = ledger
        self._jobs = jobs
        self._address = address
        self._metrics_address = metrics_address
        self._draining = draining
        self._process = psutil.Process()
        self._since = time.monotonic()

    def status(self) -> Status:
        """A snapshot."""
        return Status(
            version=this_version(),
            pid=os.getpid(),
            uptime_seconds=time.monotonic() - self._since,
            address=self._address,
            metrics_address=self._metrics_address,
            draining=self._draining(),
            pool=self._pool.status(),
            store=self._store.status(),
            compiles=[
                RunningCompile(
                    key=running.flight.key,
                    kind=running.order.kind,
                    state=running.flight.state,
                    elapsed_seconds=running.flight.age,
                    waiters=running.flight.waiters,
                    attempt=running.flight.attempt,
                    nodes=running.order.nodes,
                    job=running.order.job,
                    waiting_ranks=running.waiting_ranks,
                )
                for running in self._dispatcher.running()
            ],
            totals=self._ledger.totals,
            rss_bytes=self._process.memory_info().rss,
            jobs=self._jobs_now(),
        )

    def _jobs_now(self) -> list[JobSummary]:
        jobs = self._jobs.summaries()
        waiting = self._dispatcher.waiting_by_job()
        for job in jobs:
            job.waiting = waiting[job.job]
        return jobs
