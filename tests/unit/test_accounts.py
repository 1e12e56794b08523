"""Accounts of tenants: apart from each other, and bounded."""

import pytest
from prometheus_client import CollectorRegistry

from inductord.daemon.accounts import MAX_TENANTS, Accounts
from inductord.daemon.metrics.families import Metrics
from inductord.daemon.tenancy import LOCAL, OWNER, Caller
from inductord.v1.compiler_pb2 import Requester
from inductord.v1.cut_pb2 import GraphCut

pytestmark = pytest.mark.unit

ACME, BETA = Caller("acme", local=False), Caller("beta", local=False)
KEY = "ab" * 32


@pytest.fixture
def accounts() -> Accounts:
    return Accounts(Metrics(CollectorRegistry()), lambda: 1.0)


def asked(accounts: Accounts, tenant: str, job: str) -> None:
    accounts.of(tenant).jobs.asked(Requester(job=job, rank=0, world_size=1, pid=1), KEY)
    accounts.of(tenant).ledger.opened()


def test_each_sees_its_own_and_the_owner_all(accounts: Accounts) -> None:
    for tenant, job in ((OWNER, "a"), ("acme", "a"), ("acme", "b"), ("beta", "a")):
        asked(accounts, tenant, job)
    assert [(tenant, job.job) for tenant, job in accounts.jobs(ACME)] == [("acme", "b"), ("acme", "a")]
    assert len(list(accounts.jobs(LOCAL))) == 4
    assert [accounts.totals(who).requests for who in (ACME, BETA, LOCAL)] == [2, 1, 4]
    assert accounts.job(BETA, "b") is None
    assert accounts.job(BETA, "acme/b") is None
    named = accounts.job(LOCAL, "acme/b")
    assert named is not None
    assert named.graphs == 1


def test_cuts_are_a_tenants_own_and_the_owner_names_the_tenant(accounts: Accounts) -> None:
    for tenant, job in ((OWNER, "a"), ("acme", "a")):
        asked(accounts, tenant, job)
        accounts.of(tenant).jobs.cuts.add(Requester(job=job), [GraphCut(nodes=len(tenant), keys=[bytes.fromhex(KEY)])])

    def told(who: Caller, **wanted: str) -> list[tuple[str, int]]:
        cuts, dropped = accounts.cuts(who, **{"job": "", "key": "", **wanted})
        assert dropped == 0
        return [(each.job, each.cut.nodes) for each in cuts]

    assert told(LOCAL, key=KEY[:6]) == told(LOCAL, job="a") == told(LOCAL) == [("a", 0)]
    assert told(LOCAL, key=f"acme/{KEY}") == told(LOCAL, job="acme/a") == [("acme/a", 4)]
    assert told(ACME, key=KEY) == told(ACME) == [("a", 4)]
    assert told(BETA, key=KEY) == told(BETA) == told(BETA, job="acme/a") == told(LOCAL, key=f"gone/{KEY}") == []


def test_a_job_of_the_owner_may_be_named_like_a_tenants(accounts: Accounts) -> None:
    asked(accounts, "acme", "x")
    asked(accounts, OWNER, "acme/x")
    asked(accounts, OWNER, "acme/x")
    own = accounts.job(LOCAL, "acme/x")
    assert own is not None
    assert [job.job for tenant, job in accounts.jobs(LOCAL) if tenant == OWNER] == ["acme/x"]
    assert accounts.job(ACME, "acme/x") is None


def test_tenants_are_bounded_and_no_sum_goes_back(accounts: Accounts) -> None:
    asked(accounts, OWNER, "mine")
    for number in range(MAX_TENANTS + 5):
        asked(accounts, f"t{number}", "job")
        asked(accounts, "t0", "job")  # the one that is always used stays
        assert accounts.totals(LOCAL).requests == 2 * number + 3
    assert len({tenant for tenant, _ in accounts.jobs(LOCAL)}) == MAX_TENANTS + 1
    assert accounts.totals(Caller("t0", local=False)).requests == MAX_TENANTS + 6
    assert accounts.job(LOCAL, "t1/job") is None
