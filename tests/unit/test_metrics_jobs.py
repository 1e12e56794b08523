"""Which jobs are labels, how the time of ranks spreads, and what a report says that the last one did not."""

import pytest
from prometheus_client import CollectorRegistry

from inductord.daemon.jobs import JobTable
from inductord.daemon.metrics.families import Metrics
from inductord.daemon.metrics.job_gauges import SHOWN, families, gather
from inductord.daemon.metrics.job_labels import LINGER_S, MAX_LABELS, JobLabels, short
from inductord.daemon.rank_stats import BY_LABEL, COUNTERS, PHASES, SECONDS, bounded, difference, total
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.unit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_jobs_are_labels_and_the_others_are_one() -> None:
    labels = JobLabels(Clock(), lambda name: None)
    names = [f"job{number}" for number in range(MAX_LABELS + 10)]
    assert [labels.label(name) for name in names] == [*names[:MAX_LABELS], *["other"] * 10]
    assert labels.label("job0") == "job0"
    assert labels.current(names[-1]) == "other"


def test_a_job_that_is_gone_makes_room() -> None:
    clock = Clock()
    released: list[str] = []
    labels = JobLabels(clock, released.append, most=2)
    assert [labels.label("a"), labels.label("b"), labels.label("c")] == ["a", "b", "other"]
    clock.now = LINGER_S / 2
    labels.label("b")
    labels.current("a")  # asking does not keep it
    clock.now = LINGER_S + 1
    assert [labels.label("c"), labels.label("a")] == ["c", "other"]
    assert released == ["a"]


def test_a_label_is_short_and_not_that_of_another_job() -> None:
    long = ["x" * 128, "x" * 127 + "y"]
    assert short("llama") == "llama"
    assert len({short(name) for name in long}) == 2
    assert {len(short(name)) for name in long} == {40}
    labels = JobLabels(Clock(), lambda name: None)
    assert [labels.label(""), labels.label("other")] == ["other", "other"]


def test_the_counters_of_a_job_go_with_its_label() -> None:
    clock = Clock()
    registry = CollectorRegistry()
    metrics = Metrics(registry, clock)

    def jobs() -> dict[str, float]:
        return {
            sample.labels["job"]: sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.name == "inductord_job_recompiles_total"
        }

    metrics.rank_reported(pb.Requester(job="a"), pb.RankStats(recompiles=3))
    assert jobs() == {"other": 0, "a": 3}
    clock.now = LINGER_S + 1
    metrics.ranks.labels.release()
    assert jobs() == {"other": 0}
    named = {sample.labels.get("job") for family in registry.collect() for sample in family.samples}
    assert named == {None, "other"}


def test_the_spread_is_that_of_the_processes_that_ranks_have_now() -> None:
    clock = Clock()
    table = JobTable(clock)
    labels = JobLabels(clock, lambda name: None)
    for rank, pid, seconds in ((0, 1, 100.0), (0, 2, 1.0), (1, 3, 5.0)):
        table.report(pb.Requester(job="a", rank=rank, pid=pid), pb.RankStats(aot_seconds=seconds))
    labels.label("a")
    assert spread(table, labels)["a", "aot"] == [1, 3, 5]
    # A job without a label is seen in the sum of all such.
    for rank, seconds in ((0, 7.0), (1, 9.0)):
        table.report(pb.Requester(job="b", rank=rank, pid=1), pb.RankStats(aot_seconds=seconds))
    assert spread(table, labels)["other", "aot"] == [7, 8, 9]
    clock.now = LINGER_S + 1
    assert spread(table, labels) == {("other", phase): [0, 0, 0] for phase in (*SHOWN, "all")}


def spread(table: JobTable, labels: JobLabels) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for family in families(gather(table.recent(LINGER_S), {}, labels)):
        if family.name == "inductord_job_rank_seconds":
            for sample in family.samples:
                found.setdefault((sample.labels["job"], sample.labels["phase"]), []).append(sample.value)
    return found


def test_every_number_of_a_report_is_counted() -> None:
    numbers = {field.name for field in pb.RankStats.DESCRIPTOR.fields if field.message_type is None}
    assert numbers - {"keys"} == {*COUNTERS, *SECONDS}
    assert {field.name for field in pb.RankStats.DESCRIPTOR.fields if field.message_type is not None} == set(BY_LABEL)
    assert set(PHASES.values()) <= set(SECONDS)


def test_sums_and_differences_are_bounded() -> None:
    most = (1 << 64) - 1
    one = pb.RankStats(hits=most, regions={"composed": 2, "x": 1, "y": 2}, fallbacks={"disabled": most}, keys=["k"])
    assert dict(bounded(one).regions) == {"composed": 2, "other": 3}
    both = total([one, one])
    assert (both.hits, both.fallbacks["disabled"], list(both.keys)) == (most, most, [])
    new = difference(pb.RankStats(regions={"whole": 5}), pb.RankStats(hits=3, regions={"whole": 2}))
    assert (new.hits, dict(new.regions)) == (0, {"whole": 3})
