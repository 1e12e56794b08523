"""The state of the daemon as one message. Reads the parts, changes nothing, and is cheap enough for a live view.

A tenant is shown what is its own: its jobs, compiles, entries and sums, and neither paths nor the load that others make.
"""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil

from inductord.compiler.versions import this_version
from inductord.daemon.accounts import Accounts
from inductord.daemon.dispatch import Dispatcher, Running
from inductord.daemon.store import Store
from inductord.daemon.tenancy import Caller, scoped
from inductord.v1.admin_pb2 import JobSummary, PoolStatus, RunningCompile, Status, StoreStatus
from inductord.worker.pool import Pool

if TYPE_CHECKING:
    from inductord.daemon.shared.store import SharedStore


class StatusBoard:
    """``address``, ``listen`` and ``metrics_address``: where the daemon really listens; the last two may be empty."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        pool: Pool,
        store: Store,
        shared: "SharedStore | None",
        accounts: Accounts,
        address: str,
        listen: str,
        metrics_address: str,
        draining: Callable[[], bool],
    ) -> None:
        self._dispatcher = dispatcher
        self._pool = pool
        self._store = store
        self._shared = shared
        self._accounts = accounts
        self._address = address
        self._listen = listen
        self._metrics_address = metrics_address
        self._draining = draining
        self._process = psutil.Process()
        self._since = time.monotonic()

    def status(self, caller: Caller) -> Status:
        """A snapshot of what ``caller`` may see."""
        status = Status(
            version=this_version(),
            uptime_seconds=time.monotonic() - self._since,
            listen=self._listen,
            draining=self._draining(),
            compiles=[
                _compile(running, caller)
                for running in self._dispatcher.running()
                if caller.local or running.order.tenant == caller.tenant
            ],
            totals=self._accounts.totals(caller),
            jobs=self._jobs(caller),
        )
        (self._add_whole if caller.local else self._add_part)(status, caller)
        return status

    def _jobs(self, caller: Caller) -> list[JobSummary]:
        waiting = self._dispatcher.waiting_by_job()
        jobs = []
        for tenant, job in self._accounts.jobs(caller):
            job.waiting = waiting[tenant, job.job]
            job.job = scoped(tenant, job.job) if caller.local else job.job
            jobs.append(job)
        return sorted(jobs, key=lambda job: job.last_seen_seconds_ago)

    def _add_whole(self, status: Status, _: Caller) -> None:
        status.pid = os.getpid()
        status.address = self._address
        status.metrics_address = self._metrics_address
        status.pool.CopyFrom(self._pool.status())
        status.store.CopyFrom(self._store.status())
        if self._shared is not None:
            status.store.shared.CopyFrom(self._shared.status())
        status.rss_bytes = self._process.memory_info().rss

    def _add_part(self, status: Status, caller: Caller) -> None:
        pool, store = self._pool.status(), self._store.status()
        entries = self._store.match(scoped(caller.tenant, ""))
        status.address = f"tcp://{self._listen}"
        status.pool.CopyFrom(PoolStatus(kind=pool.kind, max_workers=pool.max_workers))
        status.store.CopyFrom(
            StoreStatus(entries=len(entries), bytes=sum(entry.size for entry in entries), max_bytes=store.max_bytes)
        )


def _compile(running: Running, caller: Caller) -> RunningCompile:
    flight, order = running.flight, running.order
    return RunningCompile(
        key=flight.key if caller.local else order.plain_key,
        kind=order.kind,
        state=flight.state,
        elapsed_seconds=flight.age,
        waiters=flight.waiters,
        attempt=flight.attempt,
        nodes=order.nodes,
        job=scoped(order.tenant, order.job) if caller.local and order.job else order.job,
        waiting_ranks=running.waiting_ranks,
    )
