"""Single-flight, one test per thing that can happen."""

import pytest

from inductord.v1 import compiler_pb2 as pb
from inductord.worker.singleflight import (
    Abandon,
    Action,
    AskGraph,
    Deliver,
    Dispatch,
    Fail,
    Forget,
    Limits,
    Reject,
    RejectReason,
    SingleFlight,
    Tell,
)

pytestmark = pytest.mark.unit

UPLOADING, QUEUED, COMPILING = pb.COMPILE_STATE_UPLOADING, pb.COMPILE_STATE_QUEUED, pb.COMPILE_STATE_COMPILING
LED, JOINED = pb.SERVED_LED, pb.SERVED_JOINED


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Flights:
    """A single-flight whose every event is followed by a check of its invariants."""

    def __init__(self, **limits: float) -> None:
        self.clock = Clock()
        self.machine = SingleFlight(Limits(**{"max_keys": 4, "max_waiters": 8, **limits}), self.clock)

    def __call__(self, event: str, *args: object) -> list[Action]:
        actions: list[Action] = getattr(self.machine, event)(*args)
        self.machine.check()
        return actions

    def running(self, key: str, *waiters: int) -> "Flights":
        """``key`` being compiled for ``waiters``, the first of which leads."""
        self.queued(key, *waiters)
        self("started", key)
        return self

    def queued(self, key: str, *waiters: int) -> "Flights":
        for waiter in waiters:
            self("open", waiter, key)
        self("uploaded", waiters[0])
        return self


def failure(kind: pb.FailureKind = pb.FAILURE_KIND_COMPILE_ERROR, *, remembered: bool = False) -> pb.CompileFailure:
    return pb.CompileFailure(kind=kind, message="no", traceback="Traceback", remembered=remembered)


def test_the_way_of_one_graph() -> None:
    flights = Flights()
    assert flights("open", 1, "a") == [AskGraph(1)]
    assert flights("open", 2, "a") == [Tell(2, UPLOADING, 0)]
    assert flights("uploaded", 1) == [Dispatch("a", 1), Tell(1, QUEUED, 0), Tell(2, QUEUED, 0)]
    assert flights("open", 3, "a") == [Tell(3, QUEUED, 0)]
    assert flights("started", "a") == [Tell(1, COMPILING, 0), Tell(2, COMPILING, 0), Tell(3, COMPILING, 0)]
    assert flights("open", 4, "a") == [Tell(4, COMPILING, 0)]
    assert flights("finished", "a") == [
        Deliver(1, LED),
        Deliver(2, JOINED),
        Deliver(3, JOINED),
        Deliver(4, JOINED),
        Forget("a"),
    ]
    assert flights.machine.flights() == []
    assert flights.machine.state("a") == pb.KEY_STATE_ABSENT


def test_different_keys_do_not_wait_for_each_other() -> None:
    flights = Flights().running("a", 1)
    assert flights("open", 2, "b") == [AskGraph(2)]
    assert flights("uploaded", 2) == [Dispatch("b", 1), Tell(2, QUEUED, 0)]


def test_ahead_counts_what_is_dispatched_and_not_started() -> None:
    flights = Flights().queued("a", 1).queued("b", 2)
    assert flights("open", 3, "c") == [AskGraph(3)]
    assert flights("uploaded", 3) == [Dispatch("c", 1), Tell(3, QUEUED, 2)]
    flights("started", "a")
    assert flights.machine.progress(3) == Tell(3, QUEUED, 1)
    flights("cancel", 2)
    assert flights.machine.progress(3) == Tell(3, QUEUED, 0)
    assert flights.machine.progress(2) is None


def test_leader_cancels_while_uploading_and_the_one_who_waits_longest_takes_over() -> None:
    flights = Flights()
    for waiter in (1, 2, 3):
        flights("open", waiter, "a")
    assert flights("cancel", 1) == [AskGraph(2)]
    assert flights("uploaded", 1) == [], "the one that left is not heard any more"
    assert flights("uploaded", 2)[0] == Dispatch("a", 1)
    assert flights("finished", "a") == [Deliver(2, LED), Deliver(3, JOINED), Forget("a")]


def test_everybody_cancels_while_uploading() -> None:
    flights = Flights()
    flights("open", 1, "a")
    flights("open", 2, "a")
    assert flights("cancel", 2) == []
    assert flights("cancel", 1) == [Forget("a")]
    assert flights("open", 3, "a") == [AskGraph(3)], "a new flight"


def test_leader_cancels_after_upload_and_the_compile_goes_on() -> None:
    flights = Flights().queued("a", 1, 2, 3)
    assert flights("cancel", 1) == []
    assert len(flights("started", "a")) == 2
    assert flights("finished", "a") == [Deliver(2, LED), Deliver(3, JOINED), Forget("a")]


def test_leader_cancels_in_compile_and_the_joiner_is_served() -> None:
    flights = Flights().running("a", 1, 2)
    assert flights("cancel", 1) == []
    assert flights("finished", "a") == [Deliver(2, LED), Forget("a")]


def test_nobody_waits_for_a_queued_compile() -> None:
    flights = Flights().queued("a", 1, 2)
    flights("cancel", 1)
    assert flights("cancel", 2) == [Abandon("a"), Forget("a")]
    assert flights("started", "a") == [], "a worker took it in the same moment"
    assert flights("finished", "a") == []
    assert flights("failed", "a", failure(), False) == []
    assert flights.machine.state("a") == pb.KEY_STATE_ABSENT


def test_nobody_waits_for_a_running_compile_and_it_serves_the_next_job() -> None:
    flights = Flights().running("a", 1)
    assert flights("cancel", 1) == []
    assert flights.machine.state("a") == pb.KEY_STATE_COMPILING
    assert flights("open", 2, "a") == [Tell(2, COMPILING, 0)]
    assert flights("finished", "a") == [Deliver(2, JOINED), Forget("a")], "its request did not cause the compile"


def test_nobody_waits_for_a_running_compile_to_its_end() -> None:
    flights = Flights().running("a", 1)
    flights("cancel", 1)
    assert flights("finished", "a") == [Forget("a")]


def test_cancel_is_idempotent_and_takes_unknown_waiters() -> None:
    flights = Flights().running("a", 1)
    assert flights("cancel", 99) == []
    flights("cancel", 1)
    assert flights("cancel", 1) == []
    flights("open", 2, "a")
    flights("finished", "a")
    assert flights("cancel", 2) == [], "answered and gone"


def test_one_id_waits_once() -> None:
    flights = Flights()
    flights("open", 1, "a")
    with pytest.raises(ValueError, match="waiter 1"):
        flights("open", 1, "b")


def test_asked_waiter_cannot_give_the_graph() -> None:
    flights = Flights()
    for waiter in (1, 2):
        flights("open", waiter, "a")
    no = failure(pb.FAILURE_KIND_UNLOADABLE)
    assert flights("refused", 2, no) == [], "it was not asked"
    assert flights("refused", 1, no) == [Fail(1, no), AskGraph(2)]
    assert flights("refused", 2, no) == [Fail(2, no), Forget("a")]
    assert flights("open", 3, "a") == [AskGraph(3)], "a refusal is not remembered"


def test_worker_dies_once() -> None:
    flights = Flights().running("a", 1, 2)
    died = failure(pb.FAILURE_KIND_WORKER_DIED)
    assert flights("failed", "a", died, True) == [Dispatch("a", 2), Tell(1, QUEUED, 0), Tell(2, QUEUED, 0)]
    flights("started", "a")
    assert flights("finished", "a") == [Deliver(1, LED), Deliver(2, JOINED), Forget("a")]


@pytest.mark.parametrize("kind", [pb.FAILURE_KIND_WORKER_DIED, pb.FAILURE_KIND_OUT_OF_MEMORY])
def test_worker_dies_at_every_attempt(kind: pb.FailureKind) -> None:
    flights = Flights().running("a", 1)
    died = failure(kind)
    assert flights("failed", "a", died, True)[0] == Dispatch("a", 2)
    flights("started", "a")
    assert flights("failed", "a", died, True) == [Fail(1, died), Forget("a")]
    assert flights("open", 2, "a") == [Fail(2, failure(kind, remembered=True))]


def test_dispatch_fails_before_a_worker_takes_it() -> None:
    flights = Flights().queued("a", 1).queued("b", 2)
    died = failure(pb.FAILURE_KIND_WORKER_DIED)
    assert flights("failed", "a", died, True) == [Dispatch("a", 2), Tell(1, QUEUED, 1)], "it queues behind b now"
    assert flights("failed", "a", died, True) == [Fail(1, died), Forget("a")]
    assert flights.machine.progress(2) == Tell(2, QUEUED, 0)


def test_worker_dies_when_nobody_waits() -> None:
    flights = Flights().running("a", 1)
    flights("cancel", 1)
    assert flights("failed", "a", failure(pb.FAILURE_KIND_WORKER_DIED), True) == [Forget("a")]
    assert flights.machine.state("a") == pb.KEY_STATE_ABSENT, "one death is no verdict about the graph"


def test_compile_error_reaches_all_and_is_remembered_for_a_time() -> None:
    flights = Flights(failure_ttl=300).running("a", 1, 2)
    no = failure()
    assert flights("failed", "a", no, False) == [Fail(1, no), Fail(2, no), Forget("a")]
    assert flights.machine.state("a") == pb.KEY_STATE_FAILED
    flights.clock.now += 299
    assert flights("open", 3, "a") == [Fail(3, failure(remembered=True))]
    flights.clock.now += 1
    assert flights.machine.state("a") == pb.KEY_STATE_ABSENT
    assert flights("open", 4, "a") == [AskGraph(4)]


def test_compile_error_of_a_compile_that_nobody_waits_for_is_remembered() -> None:
    flights = Flights().running("a", 1)
    flights("cancel", 1)
    assert flights("failed", "a", failure(), False) == [Forget("a")]
    assert flights("open", 2, "a") == [Fail(2, failure(remembered=True))]


@pytest.mark.parametrize("kind", pb.FailureKind.values())
def test_which_failures_are_facts_about_the_graph(kind: pb.FailureKind) -> None:
    flights = Flights().running("a", 1)
    flights("failed", "a", failure(kind), False)
    forgotten = {pb.FAILURE_KIND_UNSPECIFIED, pb.FAILURE_KIND_KEY_MISMATCH, pb.FAILURE_KIND_POOL_UNAVAILABLE}
    assert flights.machine.state("a") == (pb.KEY_STATE_ABSENT if kind in forgotten else pb.KEY_STATE_FAILED)


def test_memory_of_failures_is_bounded_and_the_oldest_make_room() -> None:
    flights = Flights(max_failures=2)
    for waiter, key in enumerate("abc"):
        flights.running(key, waiter)("failed", key, failure(), False)
    assert [flights.machine.state(key) for key in "abc"] == [
        pb.KEY_STATE_ABSENT,
        pb.KEY_STATE_FAILED,
        pb.KEY_STATE_FAILED,
    ]


def test_failures_can_be_forgotten() -> None:
    flights = Flights()
    for waiter, key in enumerate("abc"):
        flights.running(key, waiter)("failed", key, failure(), False)
    assert flights.machine.forget_failures("a") == 1
    assert flights.machine.forget_failures("a") == 0
    assert flights("open", 9, "a") == [AskGraph(9)]
    assert flights.machine.forget_failures() == 2


def test_too_many_keys() -> None:
    flights = Flights(max_keys=2).running("a", 1).queued("b", 2)
    assert flights("open", 3, "c") == [Reject(3, RejectReason.QUEUE_FULL)]
    assert flights("open", 4, "a") == [Tell(4, COMPILING, 0)], "joining needs no place in the queue"
    flights("finished", "a")
    assert flights("open", 3, "c") == [AskGraph(3)]


def test_too_many_waiters() -> None:
    flights = Flights(max_waiters=2).running("a", 1, 2)
    assert flights("open", 3, "a") == [Reject(3, RejectReason.TOO_MANY_WAITERS)]
    assert flights("open", 3, "b") == [Reject(3, RejectReason.TOO_MANY_WAITERS)]
    flights("cancel", 2)
    assert flights("open", 3, "b") == [AskGraph(3)]


def test_drain_lets_go_on_what_is_dispatched() -> None:
    flights = Flights().running("a", 1, 2).queued("b", 3)
    flights("open", 4, "c")
    flights("open", 5, "c")
    aborted = RejectReason.ABORTED
    assert flights("drain") == [Reject(4, aborted), Reject(5, aborted), Forget("c")]
    assert flights("uploaded", 4) == []
    assert flights("open", 6, "a") == [Reject(6, RejectReason.DRAINING)]
    assert flights("drain") == []
    assert flights("finished", "a") == [Deliver(1, LED), Deliver(2, JOINED), Forget("a")]
    assert flights("failed", "b", failure(pb.FAILURE_KIND_WORKER_DIED), True)[0] == Dispatch("b", 2)


def test_abort_ends_everything() -> None:
    flights = Flights().running("a", 1).queued("b", 2).running("c", 3)
    flights("open", 4, "d")
    flights("cancel", 3)
    aborted = RejectReason.ABORTED
    assert flights("abort") == [
        *(Reject(1, aborted), Abandon("a"), Forget("a")),
        *(Reject(2, aborted), Abandon("b"), Forget("b")),
        *(Abandon("c"), Forget("c")),
        *(Reject(4, aborted), Forget("d")),
    ]
    assert flights("abort") == []
    assert flights.machine.flights() == []
    assert flights("finished", "a") == []


def test_events_that_come_twice_or_too_early_change_nothing() -> None:
    flights = Flights()
    flights("open", 1, "a")
    assert flights("started", "a") == []
    assert flights("failed", "a", failure(), False) == []
    flights("uploaded", 1)
    assert flights("uploaded", 1) == []
    assert flights("refused", 1, failure()) == [], "it gave the graph already"
    flights("started", "a")
    assert flights("started", "a") == []


def test_published_by_somebody_else_while_it_is_uploaded() -> None:
    flights = Flights()
    flights("open", 1, "a")
    flights("open", 2, "a")
    assert flights("finished", "a") == [Deliver(1, JOINED), Deliver(2, JOINED), Forget("a")]
    assert flights("uploaded", 1) == []


def test_flights_are_shown_with_age_and_attempt() -> None:
    flights = Flights().running("a", 1, 2)
    flights.clock.now += 5
    flights("open", 3, "b")
    first, second = flights.machine.flights()
    assert (first.key, first.state, first.age, first.waiters, first.attempt) == ("a", COMPILING, 5.0, 2, 1)
    assert (second.key, second.state, second.age, second.waiters, second.attempt) == ("b", UPLOADING, 0.0, 1, 0)


def test_check_finds_a_lost_waiter() -> None:
    flights = Flights().running("a", 1)
    del flights.machine._key_of[1]
    with pytest.raises(AssertionError, match="waiter"):
        flights.machine.check()
