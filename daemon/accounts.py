"""The accounts of the tenants: what each asked for and got. Apart, so that no tenant sees or displaces another's jobs.

The metrics are of the whole daemon: a tenant's name is nothing for a label.
"""

from collections.abc import Callable, Iterator

from inductord.daemon.errors import OverLimit
from inductord.daemon.jobs import MAX_SPANS, JobRanks, JobTable
from inductord.daemon.ledger import Ledger
from inductord.daemon.metrics.families import Metrics
from inductord.daemon.tenancy import OWNER, Caller
from inductord.v1.admin_pb2 import JobSummary, Timeline, Totals

MAX_TENANTS = 1024


class Account:
    """One tenant's jobs and totals."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float], most_spans: Callable[[], int]) -> None:
        self.jobs = JobTable(clock, most_spans=most_spans)
        self.ledger = Ledger(metrics, self.jobs)


class Accounts:
    """At most ``MAX_TENANTS`` accounts, from the start of the daemon. That of the owner is there from the start."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._accounts = {OWNER: Account(metrics, clock, self._most_spans)}

    def of(self, tenant: str) -> Account:
        """The account of ``tenant``, made when there is none.

        Raises:
            OverLimit: there are too many.
        """
        account = self._accounts.get(tenant)
        if account is None:
            if len(self._accounts) > MAX_TENANTS:
                raise OverLimit(f"{MAX_TENANTS} tenants have accounts already. Restart the daemon to begin anew.")
            account = self._accounts[tenant] = Account(self._metrics, self._clock, self._most_spans)
        return account

    def _most_spans(self) -> int:
        return MAX_SPANS // len(self._accounts)

    def totals(self, caller: Caller) -> Totals:
        """Sums of ``caller``; for the owner those over all tenants."""
        if not caller.local:
            return self.of(caller.tenant).ledger.totals
        total = Totals()
        for account in self._accounts.values():
            for field, value in account.ledger.totals.ListFields():
                setattr(total, field.name, getattr(total, field.name) + value)
        return total

    def job(self, caller: Caller, name: str) -> JobSummary | None:
        """One job of ``caller``, or None. The owner may name a tenant and a slash before the job's name."""
        table, job = self._find(caller, name)
        return table.summary(job)

    def timeline(self, caller: Caller, name: str) -> Iterator[Timeline] | None:
        """See `JobTable.timeline`. Names as for ``job``."""
        table, job = self._find(caller, name)
        return table.timeline(job)

    def jobs(self, caller: Caller) -> Iterator[tuple[str, JobSummary]]:
        """Tenant and summary of the jobs of ``caller``; for the owner those of all tenants."""
        tenants = list(self._accounts) if caller.local else [caller.tenant]
        for tenant in tenants:
            for summary in self.of(tenant).jobs.summaries():
                yield tenant, summary

    def recent(self, seconds: float) -> Iterator[JobRanks]:
        """See `JobTable.recent`: of all tenants."""
        for account in self._accounts.values():
            yield from account.jobs.recent(seconds)

    def _find(self, caller: Caller, name: str) -> tuple[JobTable, str]:
        own = self.of(caller.tenant).jobs
        tenant, slash, job = name.partition("/")
        if caller.local and slash and tenant in self._accounts and own.summary(name) is None:
            return self.of(tenant).jobs, job
        return own, name
