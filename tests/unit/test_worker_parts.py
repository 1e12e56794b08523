"""The pure parts around a worker: its environment, retries of its start, and what its end means."""

from pathlib import Path

import pytest

from inductord.v1.compiler_pb2 import CompileFailure, FailureKind
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker import verdicts
from inductord.worker.environment import worker_environment
from inductord.worker.failures import WorkerFailure, describe_end, killing_signal
from inductord.worker.pool import Compiled, Failed
from inductord.worker.starts import Starts

pytestmark = pytest.mark.unit
SCRATCH = Path("/scratch/w")


def test_a_worker_is_no_rank_and_not_its_own_client() -> None:
    base = {
        "RANK": "3",
        "WORLD_SIZE": "8",
        "MASTER_ADDR": "a",
        "TORCHELASTIC_RUN_ID": "x",
        "INDUCTORD_ADDRESS": "unix:/s",
    }
    made = worker_environment(base, SCRATCH, {})
    assert not base.keys() & made.keys()
    assert made["INDUCTORD"] == "0"
    assert made["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert made["CUDA_VISIBLE_DEVICES"] == ""


def test_compiler_settings_of_whoever_started_the_daemon_stay_outside() -> None:
    base = {"TORCHINDUCTOR_FREEZING": "1", "TORCHDYNAMO_VERBOSE": "1", "TORCH_LOGS": "+all", "TORCH_COMPILE_DEBUG": "1"}
    base |= {"TRITON_F32_DEFAULT": "ieee", "TRITON_KERNEL_DUMP": "1"}
    assert not base.keys() & worker_environment(base, SCRATCH, {}).keys()


def test_what_a_worker_needs_to_find_its_tools_is_kept() -> None:
    base = {"PATH": "/bin", "PYTHONPATH": "/x", "CXX": "clang++", "TRITON_PTXAS_PATH": "/p", "LD_LIBRARY_PATH": "/l"}
    assert worker_environment(base, SCRATCH, {}).items() >= base.items()


def test_caches_lie_in_scratch_and_overrides_have_the_last_word() -> None:
    made = worker_environment({"TMPDIR": "/tmp"}, SCRATCH, {"OMP_NUM_THREADS": "4"})
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR"):
        assert Path(made[name]).is_relative_to(SCRATCH)
    assert made["OMP_NUM_THREADS"] == "4"


def test_a_user_without_a_name_gets_one_and_others_keep_theirs() -> None:
    assert worker_environment({}, SCRATCH, {})["LOGNAME"]
    assert "LOGNAME" not in worker_environment({"USER": "ada"}, SCRATCH, {})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_starts_are_given_up_after_three_failures_in_a_row_with_growing_delays() -> None:
    clock = Clock()
    starts = Starts(clock)
    delays = []
    for number in range(3):
        assert not starts.given_up
        starts.failed(f"why {number}")
        delays.append(starts.delay)
    assert starts.given_up
    assert starts.last_failure == "why 2"
    assert delays == sorted(set(delays))
    clock.now += starts.delay
    assert starts.delay == 0.0


def test_the_delay_is_bounded_and_a_success_forgets_it() -> None:
    starts = Starts(Clock())
    for _ in range(2000):
        starts.failed("why")
    assert starts.delay == 60.0
    starts.succeeded()
    assert (starts.delay, starts.given_up, starts.last_failure) == (0.0, False, "")


@pytest.mark.parametrize(
    ("returncode", "number", "words"),
    [
        (-9, 9, "was killed by SIGKILL"),
        (137, 9, "was killed by SIGKILL"),
        (139, 11, "was killed by SIGSEGV"),
        (3, None, "exited with status 3"),
        (0, None, "exited with status 0"),
        (255, None, "exited with status 255"),
        (None, None, "closed its connection"),
    ],
)
def test_the_end_of_a_process_in_words(returncode: int | None, number: int | None, words: str) -> None:
    assert killing_signal(returncode) == number
    assert describe_end(returncode) == words


def failure_reply(kind: FailureKind) -> CompileReply:
    return CompileReply(failure=CompileFailure(kind=kind, message="no", traceback="tb"))


def kind_of(verdict: verdicts.Verdict) -> tuple[FailureKind, bool, WorkerFailure | None]:
    outcome, failure = verdict
    assert isinstance(outcome, Failed)
    return outcome.failure.kind, outcome.retryable, failure


def test_an_artifact_is_a_success_even_when_it_is_empty() -> None:
    reply = CompileReply(artifact=b"", compile_seconds=2.0, phases={"load": 1.0})
    assert verdicts.replied(reply, oom_killed=True) == (Compiled(b"", 2.0, {"load": 1.0}), None)


def test_a_compile_error_is_a_fact_about_the_graph() -> None:
    verdict = verdicts.replied(failure_reply(FailureKind.FAILURE_KIND_COMPILE_ERROR), oom_killed=False)
    assert kind_of(verdict) == (FailureKind.FAILURE_KIND_COMPILE_ERROR, False, None)


def test_a_compile_error_while_the_kernel_killed_for_memory_is_not() -> None:
    verdict = verdicts.replied(failure_reply(FailureKind.FAILURE_KIND_COMPILE_ERROR), oom_killed=True)
    assert kind_of(verdict) == (FailureKind.FAILURE_KIND_OUT_OF_MEMORY, True, WorkerFailure.OOM)


def test_other_failures_have_nothing_to_do_with_memory() -> None:
    verdict = verdicts.replied(failure_reply(FailureKind.FAILURE_KIND_UNLOADABLE), oom_killed=True)
    assert kind_of(verdict) == (FailureKind.FAILURE_KIND_UNLOADABLE, False, None)


def test_a_reply_without_a_result_is_the_workers_fault() -> None:
    assert kind_of(verdicts.replied(CompileReply(), False)) == (
        FailureKind.FAILURE_KIND_WORKER_DIED,
        True,
        WorkerFailure.DIED,
    )


@pytest.mark.parametrize(
    ("returncode", "oom_killed", "kind"),
    [
        (-9, True, FailureKind.FAILURE_KIND_OUT_OF_MEMORY),
        (137, True, FailureKind.FAILURE_KIND_OUT_OF_MEMORY),
        (-9, False, FailureKind.FAILURE_KIND_WORKER_DIED),
        (-11, True, FailureKind.FAILURE_KIND_WORKER_DIED),
        (1, True, FailureKind.FAILURE_KIND_WORKER_DIED),
        (None, True, FailureKind.FAILURE_KIND_WORKER_DIED),
    ],
)
def test_only_sigkill_with_a_risen_count_means_out_of_memory(
    returncode: int | None, oom_killed: bool, kind: FailureKind
) -> None:
    got, retryable, _ = kind_of(verdicts.lost(returncode, oom_killed, "eof", "tail"))
    assert (got, retryable) == (kind, True)
