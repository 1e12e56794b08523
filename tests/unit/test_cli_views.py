"""What ``status`` and ``explain`` show, and what ``doctor`` finds, without a daemon."""

import io
import stat
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from rich.console import Console
from support.stores import key_file

from inductord.daemon.cli.checks import machine, service, shared, software
from inductord.daemon.cli.checks.finding import Finding, Level
from inductord.daemon.cli.explain import compare, parts
from inductord.daemon.cli.status_view import bar, draw, line
from inductord.daemon.config import load_config
from inductord.v1 import admin_pb2, compiler_pb2

pytestmark = pytest.mark.unit


def drawn(status: admin_pb2.Status, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(draw(status))
    return out.getvalue()


def a_status() -> admin_pb2.Status:
    return admin_pb2.Status(
        version=compiler_pb2.Version(protocol=1, release="9.8.7"),
        pid=4711,
        uptime_seconds=200,
        address="unix:/run/user/1000/inductord/inductord.sock",
        metrics_address="127.0.0.1:9464",
        pool=admin_pb2.PoolStatus(kind="local", max_workers=4, idle=1, busy=2, queued=3),
        store=admin_pb2.StoreStatus(path="/var/cache/inductord", entries=12, bytes=2_202_010, max_bytes=20 << 30),
        totals=admin_pb2.Totals(requests=120, hits=80, joined=36, led=4, compiles=4, saved_seconds=612),
        compiles=[
            admin_pb2.RunningCompile(
                key="ab" * 32,
                kind=compiler_pb2.GRAPH_KIND_BACKWARD,
                state=compiler_pb2.COMPILE_STATE_COMPILING,
                elapsed_seconds=4.2,
                waiters=7,
                waiting_ranks=[6, 0, 1, 2, 3, 4, 9],
                attempt=2,
                nodes=812,
            )
        ],
        jobs=[admin_pb2.JobSummary(job="llama", ranks=4, world_size=4, graphs=6, compiles=6)],
    )


@pytest.mark.parametrize("width", [80, 120])
def test_status_says_what_runs_and_fits_the_terminal(width: int) -> None:
    text = drawn(a_status(), width)
    assert max(map(len, text.splitlines())) <= width
    for fact in (
        "9.8.7",
        "4711",
        "2 busy",
        "3 queued",
        "12 entries",
        "80 hits",
        "abababababab",
        "backward",
        "4/4",
        "7: 0–4, 6, 9",
        "try 2",
        "10 min 12 s",
        "llama",
    ):
        assert fact in text
    assert "DRAINING" not in text


def test_status_shows_what_is_wrong() -> None:
    status = a_status()
    status.draining = True
    status.pool.note = "Ray is gone; the local pool serves."
    status.store.note = "The disk is full."
    status.pool.crashes = 1
    text = drawn(status)
    for fact in ("DRAINING", "Ray is gone", "The disk is full", "1 crash"):
        assert fact in text


def test_status_shows_the_shared_store_when_there_is_one() -> None:
    status = a_status()
    assert "shared store" not in drawn(status)
    status.store.shared.MergeFrom(
        admin_pb2.SharedStoreStatus(
            url="s3://bucket/x", hits=3, absent=2, refused=1, written=2, note="not read for 9 s"
        )
    )
    text = drawn(status, 120)
    assert "3 hits, 2 absent, 1 refused; 2 written, 0 queued" in text
    assert "s3://bucket/x" in text
    assert "not read for 9 s" in text
    status.store.shared.read_only = True
    assert "1 refused; read only" in drawn(status)


def test_long_lists_are_cut_and_say_so() -> None:
    status = a_status()
    status.compiles.extend([status.compiles[0]] * 20)
    assert "and 9 more" in drawn(status)


def test_names_of_jobs_cannot_command_the_terminal_or_rich() -> None:
    status = a_status()
    status.jobs[0].job = "[/red][link=file:x]\x1b[31m\x07"
    text = drawn(status, 120)
    assert "[/red][link=file:x]" in text.replace("\n", "")
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize(
    ("value", "whole", "drawn_as"), [(0, 10, ""), (10, 10, "████"), (99, 10, "████"), (0.001, 10, "▏"), (5, 0, "▏")]
)
def test_bars(value: float, whole: float, drawn_as: str) -> None:
    assert bar(value, whole, 4, "").plain == drawn_as


def test_many_waiting_ranks_are_a_number() -> None:
    status = a_status()
    status.compiles[0].waiters = 900
    assert "900" in drawn(status)
    status.compiles[0].waiters = 0
    assert "none" in drawn(status)


def test_status_in_a_line() -> None:
    assert "2/4 workers busy, 3 queued, 120 requests: 80 hits" in line(a_status())


def test_compare_names_parts_that_differ_or_are_missing() -> None:
    found = compare({"graph": "1", "config": "2", "old": "x"}, {"graph": "1", "config": "3", "new": "y"})
    assert found.differ == {"config": ("2", "3"), "new": (None, "y"), "old": ("x", None)}
    assert found.equal == ("graph",)


def test_the_toolchain_is_compared_in_the_open() -> None:
    def entry(torch: str) -> admin_pb2.Entry:
        return admin_pb2.Entry(toolchain=compiler_pb2.Toolchain(torch=torch), key_parts={"graph": "1"})

    found = compare(parts(entry("2.12.0")), parts(entry("2.13.0")))
    assert found.differ == {"toolchain.torch": ("2.12.0", "2.13.0")}


def levels(findings: list[Finding]) -> dict[str, Level]:
    return {finding.check: finding.level for finding in findings}


def installed(**versions: str) -> Callable[[str], str]:
    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    return version


def test_packages_are_held_against_the_metadata() -> None:
    asked = ["torch<2.16,>=2.11", "grpcio>=1.62", 'rich>=13; extra == "daemon"', 'ray>=2.40; extra == "ray"']
    good = list(software.packages(lambda _: asked, installed(torch="2.13.0+cpu", grpcio="1.85", rich="15.0")))
    assert levels(good) == {"torch": Level.OK, "grpcio": Level.OK}
    bad = list(software.packages(lambda _: asked, installed(torch="2.10.1", grpcio="1.85")))
    assert levels(bad) == {"torch": Level.FAIL, "grpcio": Level.OK, "rich": Level.FAIL}
    assert all(finding.mend for finding in bad if finding.level is Level.FAIL)


def test_a_nightly_torch_within_the_range_is_fine() -> None:
    found = list(software.packages(lambda _: ["torch<2.16,>=2.11"], installed(torch="2.15.0.dev20260801+cu130")))
    assert levels(found) == {"torch": Level.OK}


def test_a_folder_on_the_path_is_no_installation() -> None:
    def requires(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    assert levels(list(software.packages(requires))) == {"inductord": Level.FAIL}


@pytest.mark.parametrize(("value", "level"), [("0", Level.WARN), ("1", Level.OK)])
def test_autoload_off_is_warned_about(value: str, level: Level) -> None:
    (finding,) = software.variables({"TORCH_DEVICE_BACKEND_AUTOLOAD": value})
    assert finding.level is level


def test_no_compiler_fails_with_a_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    (finding,) = machine.cxx(load_config({"address": f"unix:{tmp_path}/s"}))
    assert finding.level is Level.FAIL
    assert "no-such-compiler" in finding.found
    assert finding.mend


def test_a_python_without_headers_fails_with_a_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", {"include": str(tmp_path)}.get)
    config = load_config({"address": f"unix:{tmp_path}/s"})
    (absent,) = machine.headers(config)
    assert (absent.level, str(tmp_path) in absent.found, "-dev" in absent.mend) == (Level.FAIL, True, True)
    (tmp_path / "Python.h").touch()
    (found,) = machine.headers(config)
    assert found.level is Level.OK


def test_a_socket_folder_that_everybody_may_write_to_fails(tmp_path: Path) -> None:
    config = load_config({"address": f"unix:{tmp_path}/s"})
    tmp_path.chmod(0o777)
    assert [finding.level for finding in machine.socket_folder(config)] == [Level.FAIL]
    tmp_path.chmod(0o700)
    assert [finding.level for finding in machine.socket_folder(config)] == [Level.OK]


def test_the_default_socket_folder_must_be_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("INDUCTORD_ADDRESS", raising=False)
    config = load_config({})
    folder = tmp_path / "inductord"
    assert [finding.found.endswith("this user only") for finding in machine.socket_folder(config)] == [True]
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    (finding,) = machine.socket_folder(config)
    assert finding.level is Level.FAIL
    folder.chmod(stat.S_IRWXU)
    assert [finding.level for finding in machine.socket_folder(config)] == [Level.OK]


def test_a_store_under_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = load_config({"address": f"unix:{tmp_path}/s", "store_path": tmp_path / "file" / "store"})
    assert [finding.level for finding in machine.store(config)] == [Level.FAIL]


def test_home_that_is_not_set_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = load_config({"address": f"unix:{tmp_path}/s", "store_path": tmp_path / "store"})
    monkeypatch.delenv("HOME")
    assert [finding.level for finding in machine.home(config)] == [Level.WARN]


def test_a_uid_without_a_name_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = load_config({"address": f"unix:{tmp_path}/s"})
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(f"os.{name}", lambda: 54321)
    (finding,) = machine.user(config)
    assert finding.level is Level.WARN
    assert "54321" in finding.found
    # A variable gives it one, as the mend says.
    monkeypatch.setenv("USER", "trainer")
    (finding,) = machine.user(config)
    assert finding.level is Level.OK
    assert "trainer" in finding.found


def test_no_daemon_is_no_failure(tmp_path: Path) -> None:
    (finding,) = service.daemon(load_config({"address": f"unix:{tmp_path}/s"}))
    assert finding.level is Level.OK
    assert "there is no socket" in finding.found


def test_the_shared_store_is_looked_at_when_it_is_asked_for(tmp_path: Path) -> None:
    def found(**settings: object) -> list[tuple[Level, str]]:
        return [(finding.level, finding.found) for finding in shared.shared_store(load_config(settings))]

    assert found() == []
    keys = key_file(tmp_path)
    (_, has_keys), (level, answers) = found(shared_store=f"file://{tmp_path}/shared", shared_store_keys=keys)
    assert ("1 key;" in has_keys, level, "answers" in answers) == (True, Level.OK, True)
    ((level, _),) = found(shared_store=f"file://{tmp_path}/shared")
    assert level is Level.FAIL
    (tmp_path / "file").touch()
    _, (level, why) = found(shared_store=f"file://{tmp_path}/file/x", shared_store_keys=keys)
    assert (level, "NotADirectoryError" in why) == (Level.FAIL, True)
