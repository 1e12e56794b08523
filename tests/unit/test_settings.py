"""What the environment tells a rank."""

import os
from pathlib import Path

import pytest

from inductord.compiler.settings import DEFAULT_MAX_WAIT_S, RankSettings, SettingsError, from_environment

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("INDUCTORD"):
            monkeypatch.delenv(name)


def test_without_variables_there_are_defaults() -> None:
    settings = from_environment({})
    assert settings == RankSettings(
        enabled=True,
        address=settings.address,
        max_wait=DEFAULT_MAX_WAIT_S,
        job=f"pid-{os.getpid()}",
        rank=0,
        world_size=1,
        report_dir=None,
        progress=False,  # pytest's standard error is no terminal
        regions="auto",
    )
    assert settings.address.startswith("unix:/")


def test_what_is_set_is_taken(tmp_path: Path) -> None:
    settings = from_environment(
        {
            "INDUCTORD": "1",
            "INDUCTORD_ADDRESS": f"unix:{tmp_path}/d.sock",
            "INDUCTORD_MAX_WAIT": "1.5",
            "INDUCTORD_JOB": "llama",
            "INDUCTORD_REPORT_DIR": str(tmp_path),
            "INDUCTORD_PROGRESS": "1",
            "INDUCTORD_RECORD_DIR": str(tmp_path / "graphs"),
            "INDUCTORD_REGIONS": "Force",
            "RANK": "0",
            "WORLD_SIZE": "8",
        }
    )
    assert settings == RankSettings(
        True, f"unix:{tmp_path}/d.sock", 1.5, "llama", 0, 8, tmp_path, True, "force", tmp_path / "graphs"
    )


def test_an_unknown_way_with_regions_is_named() -> None:
    with pytest.raises(SettingsError, match="INDUCTORD_REGIONS='some' is none of off, auto, force"):
        from_environment({"INDUCTORD_REGIONS": "some"})


@pytest.mark.parametrize(
    ("value", "enabled"),
    [("0", False), ("false", False), (" No ", False), ("OFF", False), ("1", True), ("", True), ("yes", True)],
)
def test_inductord_0_turns_it_off(value: str, enabled: bool) -> None:
    assert from_environment({"INDUCTORD": value}).enabled is enabled


def test_the_job_is_named_by_hand_or_by_torchrun() -> None:
    assert from_environment({"INDUCTORD_JOB": "mine", "TORCHELASTIC_RUN_ID": "theirs"}).job == "mine"
    assert from_environment({"INDUCTORD_JOB": "", "TORCHELASTIC_RUN_ID": "theirs"}).job == "theirs"


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "1 h"])
def test_a_wait_that_is_no_time_is_refused_by_name(value: str) -> None:
    with pytest.raises(SettingsError, match=r"INDUCTORD_MAX_WAIT='.*'"):
        from_environment({"INDUCTORD_MAX_WAIT": value})


def test_an_address_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr("tempfile.tempdir", "/" + "long" * 40)
    with pytest.raises(SettingsError, match="INDUCTORD_ADDRESS"):
        from_environment({})


def test_variables_of_torchrun_are_not_ours_to_judge() -> None:
    settings = from_environment({"RANK": "one", "WORLD_SIZE": ""})
    assert (settings.rank, settings.world_size) == (0, 1)


@pytest.mark.parametrize(
    ("terminal", "value", "rank", "shown"),
    [
        (True, "", "0", True),
        (True, "0", "0", False),
        (False, "", "0", False),
        (False, "1", "0", True),
        (True, "", "1", False),
        (True, "1", "3", False),
    ],
)
def test_rank_0_alone_shows_progress_and_only_to_people(
    terminal: bool, value: str, rank: str, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    assert from_environment({"INDUCTORD_PROGRESS": value, "RANK": rank}).progress is shown
