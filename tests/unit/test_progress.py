"""The line on rank 0's terminal."""

import pytest

from inductord.compiler.progress import ProgressLine
from inductord.v1.compiler_pb2 import (
    COMPILE_STATE_COMPILING,
    COMPILE_STATE_QUEUED,
    COMPILE_STATE_UPLOADING,
    CompileState,
    Progress,
)

pytestmark = pytest.mark.unit

CLEAR = "\r\x1b[K"


def shown(capsys: pytest.CaptureFixture[str], *updates: Progress, enabled: bool = True) -> str:
    line = ProgressLine("forward graph of 9 nodes", enabled=enabled)
    for progress in updates:
        line.update(progress)
    line.close()
    out, err = capsys.readouterr()
    assert out == ""  # the script's own output is not ours to mix into
    return err


def test_it_is_quiet_unless_enabled(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Progress(state=COMPILE_STATE_COMPILING, elapsed_seconds=100), enabled=False) == ""


def test_a_wait_that_nobody_notices_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Progress(state=COMPILE_STATE_QUEUED, elapsed_seconds=0.1)) == ""


@pytest.mark.parametrize(
    ("state", "ahead", "words"),
    [
        (COMPILE_STATE_UPLOADING, 0, "another rank sends it"),
        (COMPILE_STATE_QUEUED, 3, "queued, 3 ahead"),
        (COMPILE_STATE_COMPILING, 0, "compiling"),
    ],
)
def test_it_says_what_happens(capsys: pytest.CaptureFixture[str], state: CompileState, ahead: int, words: str) -> None:
    progress = Progress(state=state, ahead=ahead, elapsed_seconds=12.4)
    assert shown(capsys, progress) == f"{CLEAR}inductord: forward graph of 9 nodes: {words}, 12 s{CLEAR}"


def test_a_state_of_a_newer_daemon_is_a_wait(capsys: pytest.CaptureFixture[str]) -> None:
    assert "waiting, 2 s" in shown(capsys, Progress(state=77, elapsed_seconds=2))  # type: ignore[arg-type]


def test_each_line_takes_the_place_of_the_last_and_the_end_clears_it(capsys: pytest.CaptureFixture[str]) -> None:
    updates = [Progress(state=COMPILE_STATE_COMPILING, elapsed_seconds=seconds) for seconds in (1, 2, 3)]
    text = shown(capsys, *updates)
    assert text.count(CLEAR) == 4
    assert text.endswith(CLEAR)
    assert "\n" not in text
