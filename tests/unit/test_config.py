"""Settings: which source wins, what is said about bad ones."""

import os
import re
from pathlib import Path

import pytest

from inductord.compiler.security import VARIABLES as CONNECTION
from inductord.compiler.settings import VARIABLES as RANK
from inductord.daemon.cli.variables import unknown
from inductord.daemon.config import ConfigError, DaemonConfig, explain_config, load_config

pytestmark = pytest.mark.unit

REPO = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but the defaults."""
    for name in list(os.environ):
        if name.startswith("INDUCTORD"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return path


def sources(config: DaemonConfig) -> dict[str, str]:
    return {name: source for name, _, source in explain_config(config)}


def test_flags_beat_the_environment_beats_the_file_beats_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = written(tmp_path, "max_workers = 1\nmax_queue = 2\nmax_waiters = 3\n")
    monkeypatch.setenv("INDUCTORD_MAX_WORKERS", "10")
    monkeypatch.setenv("INDUCTORD_MAX_QUEUE", "20")
    config = load_config({"config": path, "max_workers": 100})
    assert (config.max_workers, config.max_queue, config.max_waiters) == (100, 20, 3)
    told = sources(config)
    assert told["max_workers"] == "flag"
    assert told["max_queue"] == "env INDUCTORD_MAX_QUEUE"
    assert told["max_waiters"] == f"file {path}"
    assert told["drain_seconds"] == "default"


def test_the_file_is_named_by_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = written(tmp_path, 'pool = "ray"\n')
    monkeypatch.setenv("INDUCTORD_CONFIG", str(path))
    config = load_config()
    assert config.pool == "ray"
    assert sources(config)["config"] == "env INDUCTORD_CONFIG"


def test_the_users_own_file_is_read_when_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config" / "inductord" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("max_queue = 7\n")
    config = load_config()
    assert config.max_queue == 7
    assert sources(config)["max_queue"] == f"file {path}"


def test_flags_that_were_not_given_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTORD_MAX_QUEUE", "20")
    assert load_config({"max_queue": None}).max_queue == 20


def test_sizes_are_written_as_people_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTORD_STORE_MAX_BYTES", "3GiB")
    assert load_config({"memory_bytes": "10 MB"}).memory_bytes == 10_000_000
    config = load_config()
    assert config.store_max_bytes == 3 << 30
    assert ("store_max_bytes", "3.0 GiB", "env INDUCTORD_STORE_MAX_BYTES") in explain_config(config)


def test_a_command_is_split_as_a_shell_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INDUCTORD_WORKER_COMMAND", "python3 'my worker.py'")
    assert load_config().worker_command == ("python3", "my worker.py")
    path = written(tmp_path, 'worker_command = ["a", "b c"]\n')
    monkeypatch.delenv("INDUCTORD_WORKER_COMMAND")
    assert load_config({"config": path}).worker_command == ("a", "b c")


def test_variables_that_are_no_settings_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INDUCTORD", "INDUCTORD_JOB", "INDUCTORD_REPORT_DIR", "INDUCTORD_ORIGINS"):
        monkeypatch.setenv(name, "{}")
    assert set(sources(load_config()).values()) == {"default"}


def test_variables_that_nothing_reads_are_found_and_what_was_meant() -> None:
    env = {
        "INDUCTORD": "1",
        "INDUCTORD_STORE_PTH": "/x",
        "INDUCTORD_MAX_WAITT": "3",
        "INDUCTORD_XYZZY": "",
        "INDUCTORD_POOL": "local",
        "INDUCTORD_MAX_WAIT": "300",
        "INDUCTORD_TOKEN": "of a rank",
        "INDUCTORD_SERVICE_HOST": "10.0.0.1",
        "INDUCTORD_PORT_7777_TCP": "of Kubernetes",
        "HOME": "/",
    }
    assert list(unknown(env)) == [
        ("INDUCTORD_MAX_WAITT", "Did you mean 'INDUCTORD_MAX_WAIT'?"),
        ("INDUCTORD_STORE_PTH", "Did you mean 'INDUCTORD_STORE_PATH'?"),
        ("INDUCTORD_XYZZY", "`inductord config` lists all settings."),
    ]
    named = set(re.findall(r"`(INDUCTORD\w*)`", (REPO / "docs" / "configuration.md").read_text()))
    assert named >= RANK | CONNECTION
    assert not list(unknown(dict.fromkeys(named - {"INDUCTORD_", "INDUCTORD_TLS_"}, "")))


def test_every_setting_is_explained_and_described() -> None:
    fields = set(DaemonConfig.model_fields) - {"origins"}
    assert {name for name, _, _ in explain_config(load_config())} == fields
    assert all(DaemonConfig.model_fields[name].description for name in fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("adress = 'x'\n", "Did you mean 'address'?"),
        ("zzzzzz = 1\n", "inductord config"),
        ("max_queue = \n", "not TOML"),
        ("max_queue = 0\n", "max_queue"),
        ("config = 'other.toml'\n", "cannot be set"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config({"config": path})
    assert said in str(caught.value)


def test_a_named_file_that_is_absent_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config({"config": tmp_path / "absent.toml"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("address", "localhost:5000"),
        ("address", "unix:relative.sock"),
        ("address", "unix:/" + "x" * 200),
        ("metrics_address", "9464"),
        ("metrics_address", "host:99999"),
        ("pool", "slurm"),
        ("pool", "ray://"),
        ("max_workers", "0"),
        ("store_max_bytes", "many"),
        ("worker_command", ""),
        ("heartbeat_seconds", "0"),
        ("log_level", "loud"),
    ],
)
def test_a_bad_value_is_named_with_its_source(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} \(flag\)"):
        load_config({name: value})
    monkeypatch.setenv(f"INDUCTORD_{name.upper()}", value)
    with pytest.raises(ConfigError, match=rf"{name} \(env INDUCTORD_{name.upper()}\)"):
        load_config()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("store_max_bytes", "many", "store_max_bytes (flag): write a size such as 20GiB or 500MB (it is 'many')"),
        ("address", "foo", "address (flag): 'foo' is not a Unix socket."),
    ],
)
def test_what_is_said_about_a_bad_value_names_it_once(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({name: value})
    assert str(caught.value).startswith(said)
    assert str(caught.value).count(value) == 1


def test_an_unknown_flag_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'max_worker'.*max_workers"):
        load_config({"max_worker": 1})


def test_without_a_home_the_store_has_a_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert load_config().store_path.is_relative_to(tmp_path)


def test_a_home_that_cannot_be_written_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    # A folder below a file can be made by nobody, not even root.
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert load_config().store_path.is_relative_to(tmp_path / f"inductord-{os.geteuid()}")


def test_settings_of_a_daemon_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config().max_queue = 1
