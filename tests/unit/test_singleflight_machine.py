"""Single-flight against a model of its surroundings, under whatever order of events Hypothesis thinks of.

The model plays the two sides that the machine talks with. Ranks open, upload, refuse, cancel and come back. The pool
starts, finishes, fails and crashes what was dispatched, and drops what was abandoned. Crossing events are part of it: a
pool may report on keys that it never had.
"""

import dataclasses
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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

KEYS = st.sampled_from("abcd")
KINDS = st.sampled_from([kind for kind in pb.FailureKind.values() if kind])
UNREMEMBERED = {pb.FAILURE_KIND_KEY_MISMATCH, pb.FAILURE_KIND_POOL_UNAVAILABLE}


@dataclasses.dataclass
class Compile:
    """What the pool has of one key."""

    attempt: int
    started: bool = False


class Surroundings(RuleBasedStateMachine):
    @initialize(
        max_keys=st.integers(1, 4), max_waiters=st.integers(1, 8), attempts=st.integers(1, 3), kept=st.integers(0, 3)
    )
    def begin(self, max_keys: int, max_waiters: int, attempts: int, kept: int) -> None:
        self.now = 0.0
        self.limits = Limits(max_keys, max_waiters, attempts, failure_ttl=10.0, max_failures=kept)
        self.machine = SingleFlight(self.limits, lambda: self.now)
        self.waiting: dict[int, str] = {}
        self.asked: dict[int, str] = {}
        self.pool: dict[str, Compile] = {}
        self.graphs: set[str] = set()
        self.next_waiter = 0
        self.draining = False
        self.failed_at: dict[str, float] = {}
        self.told: dict[int, tuple[int, int]] = {}
        # Over one flight of a key.
        self.led: Counter[str] = Counter()

    # What the machine's caller does with actions. Each assertion is a promise of the machine.

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case AskGraph(waiter):
                    key = self.waiting[waiter]
                    assert key not in self.asked.values(), "two waiters are asked for one graph"
                    assert key not in self.pool, "asked for a graph that is here"
                    longest = min(other for other, wanted in self.waiting.items() if wanted == key)
                    assert waiter == longest, "asked out of turn"
                    self.asked[waiter] = key
                    self.graphs.discard(key)
                case Tell(waiter, state, ahead):
                    key = self.waiting[waiter]
                    compile_ = self.pool.get(key)
                    if state == pb.COMPILE_STATE_UPLOADING:
                        assert compile_ is None
                    else:
                        assert compile_ is not None
                        assert compile_.started == (state == pb.COMPILE_STATE_COMPILING)
                    assert 0 <= ahead <= sum(not other.started for other in self.pool.values())
                    self.told[waiter] = (state, ahead)
                case Dispatch(key, attempt):
                    assert key not in self.pool, "two compiles of one key at once"
                    assert key in self.graphs, "dispatched without a graph"
                    assert 1 <= attempt <= self.limits.attempts
                    self.pool[key] = Compile(attempt)
                case Deliver(waiter, served):
                    key = self.answer(waiter)
                    self.led[key] += served == pb.SERVED_LED
                    assert self.led[key] <= 1, "two leaders of one compile"
                case Fail(waiter, failure):
                    key = self.answer(waiter)
                    assert not failure.remembered or key in self.failed_at
                case Reject(waiter, reason):
                    self.answer(waiter)
                    assert self.draining == (reason in (RejectReason.DRAINING, RejectReason.ABORTED))
                case Abandon(key):
                    dropped = self.pool.pop(key)
                    assert not dropped.started or self.aborted, "a running compile is useful"
                    assert key not in self.waiting.values(), "somebody waits for it"
                case Forget(key):
                    assert key not in self.pool, "the pool still works on it"
                    assert key not in self.waiting.values(), "somebody waits for it"
                    self.graphs.discard(key)
                    del self.led[key]
        self.machine.check()

    aborted = False

    def answer(self, waiter: int) -> str:
        self.asked.pop(waiter, None)
        self.told.pop(waiter, None)
        return self.waiting.pop(waiter)

    def waiters(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.waiting)), label="waiter")

    # Ranks

    @rule(key=KEYS)
    def open(self, key: str) -> None:
        waiter = self.next_waiter
        self.next_waiter += 1
        self.waiting[waiter] = key
        fresh = key not in self.asked.values() and key not in self.pool
        actions = self.machine.open(waiter, key)
        assert len(actions) == 1, "every opener hears something at once"
        if isinstance(actions[0], AskGraph):
            assert fresh
        if isinstance(actions[0], Tell):
            assert not fresh
        self.carry_out(actions)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def upload(self, data: st.DataObject) -> None:
        waiter = data.draw(st.sampled_from(sorted(self.asked)))
        self.graphs.add(self.asked.pop(waiter))
        actions = self.machine.uploaded(waiter)
        assert sum(isinstance(action, Dispatch) for action in actions) == 1
        self.carry_out(actions)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), kind=KINDS)
    def refuse(self, data: st.DataObject, kind: pb.FailureKind) -> None:
        waiter = data.draw(st.sampled_from(sorted(self.asked)))
        self.asked.pop(waiter)
        self.carry_out(self.machine.refused(waiter, pb.CompileFailure(kind=kind)))
        assert waiter not in self.waiting

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        waiter = self.waiters(data)
        self.answer(waiter)
        self.carry_out(self.machine.cancel(waiter))

    @rule(key=KEYS)
    def a_job_is_killed(self, key: str) -> None:
        for waiter in [waiter for waiter, wanted in self.waiting.items() if wanted == key]:
            self.answer(waiter)
            self.carry_out(self.machine.cancel(waiter))

    @rule(waiter=st.integers(0, 50))
    def late_words_of_a_rank(self, waiter: int) -> None:
        if waiter in self.waiting:
            return
        assert self.machine.cancel(waiter) == []
        assert self.machine.uploaded(waiter) == []
        assert self.machine.refused(waiter, pb.CompileFailure()) == []

    @precondition(lambda self: set(self.waiting) - set(self.asked))
    @rule(data=st.data())
    def unasked_words_of_a_rank(self, data: st.DataObject) -> None:
        waiter = data.draw(st.sampled_from(sorted(set(self.waiting) - set(self.asked))))
        assert self.machine.uploaded(waiter) == []
        assert self.machine.refused(waiter, pb.CompileFailure()) == []

    # The pool

    @precondition(lambda self: any(not compile_.started for compile_ in self.pool.values()))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(key for key, compile_ in self.pool.items() if not compile_.started)))
        self.pool[key].started = True
        self.carry_out(self.machine.started(key))

    @precondition(lambda self: self.pool)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.pool)))
        del self.pool[key]
        self.carry_out(self.machine.finished(key))

    @precondition(lambda self: self.pool)
    @rule(data=st.data(), kind=KINDS, retryable=st.booleans(), ask_again=st.booleans())
    def fail(self, data: st.DataObject, kind: pb.FailureKind, retryable: bool, ask_again: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.pool)))
        compile_ = self.pool.pop(key)
        waiting = key in self.waiting.values()
        retry = retryable and compile_.attempt < self.limits.attempts
        asked_again = not retry and ask_again and waiting and not self.draining
        final = not retry and not asked_again
        if final and kind not in UNREMEMBERED:
            self.failed_at[key] = self.now
        self.carry_out(self.machine.failed(key, pb.CompileFailure(kind=kind), retryable, lambda: ask_again))
        assert (key in self.pool) == (retry and waiting)
        assert (key in self.asked.values()) == asked_again
        fact = final and kind not in UNREMEMBERED and self.limits.max_failures > 0
        assert (self.machine.state(key) == pb.KEY_STATE_FAILED) == fact

    @rule(key=KEYS)
    def late_words_of_the_pool(self, key: str) -> None:
        if key in self.pool:
            return
        assert self.machine.started(key) == []
        assert self.machine.failed(key, pb.CompileFailure(kind=pb.FAILURE_KIND_COMPILE_ERROR), False) == []

    # The daemon

    @rule(seconds=st.floats(0, 12))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=st.none() | KEYS)
    def forget_failures(self, key: str | None) -> None:
        self.machine.forget_failures(key)
        for forgotten in list(self.failed_at) if key is None else [key]:
            self.failed_at.pop(forgotten, None)
            assert self.machine.state(forgotten) != pb.KEY_STATE_FAILED

    @precondition(lambda self: self.next_waiter > 6)
    @rule()
    def drain(self) -> None:
        self.draining = True
        self.carry_out(self.machine.drain())
        assert not self.asked
        assert set(self.waiting.values()) <= set(self.pool)

    # Always

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        for waiter, key in self.waiting.items():
            assert key in self.asked.values() or key in self.pool, f"{waiter} waits and nothing moves"
            assert self.machine.progress(waiter) is not None

    @invariant()
    def views_agree(self) -> None:
        flying = {info.key: info for info in self.machine.flights()}
        assert set(flying) == set(self.asked.values()) | set(self.pool)
        waiting = Counter(self.waiting.values())
        for key, info in flying.items():
            assert info.waiters == waiting[key]
            assert info.attempt == (self.pool[key].attempt if key in self.pool else 0)
            assert self.machine.state(key) == pb.KEY_STATE_COMPILING
        for key in set("abcd") - set(flying):
            if self.machine.state(key) == pb.KEY_STATE_FAILED:
                assert self.now - self.failed_at[key] < self.limits.failure_ttl

    @invariant()
    def graphs_are_kept_only_for_the_pool(self) -> None:
        assert self.graphs == set(self.pool)

    @invariant()
    def what_was_last_told_is_still_the_state(self) -> None:
        for waiter, (state, _) in self.told.items():
            now = self.machine.progress(waiter)
            assert now is not None
            assert now.state == state

    def teardown(self) -> None:
        if not hasattr(self, "machine"):
            return
        self.aborted = self.draining = True
        self.carry_out(self.machine.abort())
        assert self.machine.flights() == []
        left = [self.waiting, self.asked, self.pool, self.graphs, self.told]
        assert not any(left), left


TestSurroundings = Surroundings.TestCase
TestSurroundings.settings = settings(
    max_examples=200, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
