"""The accounts of the tenants: what each asked for and got. Apart, so that no tenant sees or displaces another's jobs.

The metrics are of the whole daemon: a tenant's name is nothing for a label.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from inductord.daemon.jobs import MAX_SPANS, JobRanks, JobTable
from inductord.daemon.ledger import Ledger
from inductord.daemon.metrics.families import Metrics
from inductord.daemon.tenancy import OWNER, Caller, scoped, split
from inductord.v1.admin_pb2 import JobCut, JobSummary, Timeline, Totals

MAX_TENANTS = 128


class Account:
    """One tenant's jobs and totals. ``most_spans``: how many spans the timelines of all its jobs may have now."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float], most_spans: Callable[[], int]) -> None:
        self.jobs = JobTable(clock, most_spans=most_spans)
        self.ledger = Ledger(metrics, self.jobs)


class Accounts:
    """The owner's account, and those of the ``MAX_TENANTS`` tenants seen last."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._owner = Account(metrics, clock, self._most_spans)
        self._tenants: OrderedDict[str, Account] = OrderedDict()
        # Of accounts that are gone, so that the sums over all never go back.
        self._gone = Totals()

    def of(self, tenant: str) -> Account:
        """The account of ``tenant``, made when there is none; then the one unused for longest may have to go."""
        if tenant == OWNER:
            return self._owner
        account = self._tenants.get(tenant)
        if account is None:
            account = self._tenants[tenant] = Account(self._metrics, self._clock, self._most_spans)
            if len(self._tenants) > MAX_TENANTS:
                _, oldest = self._tenants.popitem(last=False)
                _add(self._gone, oldest.ledger.totals)
        self._tenants.move_to_end(tenant)
        return account

    def _most_spans(self) -> int:
        return MAX_SPANS // (1 + len(self._tenants))

    def totals(self, caller: Caller) -> Totals:
        """Sums of ``caller``; for the owner those over all tenants."""
        if not caller.local:
            return self.of(caller.tenant).ledger.totals
        total = Totals()
        for totals in (self._gone, *(account.ledger.totals for account in self._all().values())):
            _add(total, totals)
        return total

    def job(self, caller: Caller, name: str) -> JobSummary | None:
        """One job of ``caller``, or None. The owner may name a tenant and a slash before the job's name."""
        table, job = self._find(caller, name)
        return table.summary(job)

    def timeline(self, caller: Caller, name: str) -> Iterator[Timeline] | None:
        """See `JobTable.timeline`. Names as for ``job``."""
        table, job = self._find(caller, name)
        return table.timeline(job)

    def cuts(self, caller: Caller, *, job: str, key: str) -> tuple[list[JobCut], int]:
        """How graphs of a job were cut, or those that ``key``, the beginning of one, belongs to; and how many older cuts are
        not kept. Both may have a tenant and a slash before them, from the owner."""
        if not key:
            table, name = self._find(caller, job)
            before, cuts = job.removesuffix(name), table.cuts.of_job(name)
        else:
            tenant, prefix = split(key) if caller.local else (caller.tenant, key)
            account = self._all().get(tenant)
            if account is None:
                return [], 0
            table = account.jobs
            before, cuts = scoped(tenant, "") if caller.local else "", table.cuts.of_key(prefix)
        for cut in cuts:
            cut.job = before + cut.job
        return cuts, table.cuts.dropped

    def jobs(self, caller: Caller) -> Iterator[tuple[str, JobSummary]]:
        """Tenant and summary of the jobs of ``caller``; for the owner those of all tenants."""
        accounts = self._all() if caller.local else {caller.tenant: self.of(caller.tenant)}
        for tenant, account in accounts.items():
            for summary in account.jobs.summaries():
                yield tenant, summary

    def recent(self, seconds: float) -> Iterator[JobRanks]:
        """See `JobTable.recent`: of all tenants."""
        for account in self._all().values():
            yield from account.jobs.recent(seconds)

    def _all(self) -> dict[str, Account]:
        return {OWNER: self._owner, **self._tenants}

    def _find(self, caller: Caller, name: str) -> tuple[JobTable, str]:
        own = self.of(caller.tenant).jobs
        tenant, slash, job = name.partition("/")
        if caller.local and slash and tenant in self._tenants and own.summary(name) is None:
            return self.of(tenant).jobs, job
        return own, name


def _add(total: Totals, more: Totals) -> None:
    for field, value in more.ListFields():
        setattr(total, field.name, getattr(total, field.name) + value)
