"""How numbers read, and how messages become JSON."""

from pathlib import Path

import pytest

from inductord.compiler.reasons import Fallback
from inductord.daemon.cli import words
from inductord.daemon.cli.exits import Exit
from inductord.daemon.cli.fallback_words import PHRASES, phrase
from inductord.daemon.cli.protojson import as_json, enum_name
from inductord.daemon.server import Exit as ServerExit
from inductord.v1 import admin_pb2, compiler_pb2

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (2_202_010, "2.1 MiB"),
        (20 << 30, "20.0 GiB"),
        (3 << 60, "3072.0 PiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert words.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.003, "3 ms"),
        (4.23, "4.2 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_counts_have_plurals() -> None:
    assert [words.count(number, "entry", "entries") for number in (0, 1, 12345)] == [
        "0 entries",
        "1 entry",
        "12 345 entries",
    ]


def test_json_has_numbers_for_integers_names_for_enums_and_every_field() -> None:
    entry = admin_pb2.Entry(
        key="ab",
        kind=compiler_pb2.GRAPH_KIND_FORWARD,
        size=2**40,
        sha256=b"\x00\xff",
        toolchain=compiler_pb2.Toolchain(torch="2.13.0"),
        key_parts={"graph": "12ab", "config": "77"},
    )
    found = as_json(entry)
    assert found["size"] == 2**40
    assert found["kind"] == "forward"
    assert found["sha256"] == "00ff"
    assert found["toolchain"]["torch"] == "2.13.0"
    assert found["toolchain"]["triton"] == ""
    assert found["key_parts"] == {"config": "77", "graph": "12ab"}
    assert found["uses"] == 0
    assert set(found) == {field.name for field in admin_pb2.Entry.DESCRIPTOR.fields}


def test_json_tells_absent_from_zero() -> None:
    assert as_json(admin_pb2.CollectGarbageRequest()) == {"max_bytes": None}
    assert as_json(admin_pb2.CollectGarbageRequest(max_bytes=0)) == {"max_bytes": 0}
    assert as_json(admin_pb2.GetStatusResponse()) == {"status": None}


def test_json_of_repeated_messages() -> None:
    status = admin_pb2.Status(jobs=[admin_pb2.JobSummary(job="a"), admin_pb2.JobSummary(job="b")])
    status.jobs[0].sum.fallbacks["daemon_absent"] = 3
    found = as_json(status)["jobs"]
    assert [job["job"] for job in found] == ["a", "b"]
    assert found[0]["sum"]["fallbacks"] == {"daemon_absent": 3}
    assert found[1]["sum"] is None


def test_an_enum_value_of_a_newer_release_is_shown_as_its_number() -> None:
    assert enum_name(compiler_pb2.GraphKind.DESCRIPTOR, 99) == "99"
    assert enum_name(compiler_pb2.CompileState.DESCRIPTOR, compiler_pb2.COMPILE_STATE_QUEUED) == "queued"


def test_every_reason_for_a_fallback_has_a_phrase() -> None:
    assert set(PHRASES) == set(Fallback)
    assert "does not know" in phrase("of_a_newer_release")


def test_exit_codes_of_the_daemon_are_those_of_the_command_line() -> None:
    assert (Exit.OK, Exit.FAILED, Exit.SOCKET_BUSY, Exit.STORE_BUSY) == (
        ServerExit.STOPPED,
        ServerExit.FAILED,
        ServerExit.SOCKET_BUSY,
        ServerExit.STORE_BUSY,
    )


def test_the_documented_exit_codes_are_those_of_the_command_line() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    table = text.partition("## Exit codes")[2].partition("\n`run`")[0]
    documented = {
        int(row.split("|")[1])
        for row in table.splitlines()
        if row.startswith("|") and row.split("|")[1].strip().isdigit()
    }
    assert documented == set(Exit)


@pytest.mark.parametrize(
    ("numbers", "said"), [([], ""), ([3], "3"), ([3, 1, 2, 2], "1–3"), ([0, 1, 5, 7, 8], "0–1, 5, 7–8")]
)
def test_ranges(numbers: list[int], said: str) -> None:
    assert words.ranges(numbers) == said


def test_what_a_terminal_would_obey_is_replaced() -> None:
    assert words.plain("a\x1b[2Jb\r\u202ec ü") == "a\ufffd[2Jb\ufffd\ufffdc ü"
