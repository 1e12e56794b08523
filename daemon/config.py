"""The daemon's settings: what they are, where each value came from, and what is wrong with them.

Sources, strongest first: flags, ``INDUCTORD_*`` variables, the configuration file, defaults. Reading settings touches
no file but the configuration file: folders are made, and checked, when the daemon starts.
"""

import difflib
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import ByteSize, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from inductord.compiler.address import AddressError, TcpAddress, default_address, parse_address, temporary_dir
from inductord.worker.ray_routing import PARTS

ENV_PREFIX = "INDUCTORD_"

_MIB = 1 << 20
_GIB = 1 << 30
_ORIGINS = "origins"


class ConfigError(ValueError):
    """Settings that cannot be used. The message names each one, where it came from and what is wrong."""


def _default_store() -> Path:
    # No lookup of the user's home by name: a container's UID is often in no passwd file.
    home = os.environ.get("HOME", "")
    if os.environ.get("XDG_CACHE_HOME") or home:
        cache = Path(platformdirs.user_cache_dir("inductord", appauthor=False))
        if cache.is_absolute() and _creatable(cache):
            return cache / "store"
    return temporary_dir() / "store"


def _creatable(folder: Path) -> bool:
    for ancestor in (folder, *folder.parents):
        if ancestor.exists():
            return ancestor.is_dir() and os.access(ancestor, os.W_OK | os.X_OK)
    return False


def _default_config_file() -> Path | None:
    if not (os.environ.get("XDG_CONFIG_HOME") or os.environ.get("HOME")):
        return None
    path = Path(platformdirs.user_config_dir("inductord", appauthor=False)) / "config.toml"
    try:
        return path if path.is_file() else None
    except OSError:
        return None


class DaemonConfig(BaseSettings):
    """All settings of one daemon. Sizes are bytes and take ``10GiB``; times are seconds. Made by `load_config`."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True, validate_default=False)

    config: Path | None = Field(None, description="Configuration file (TOML).")

    address: str = Field(
        default_factory=default_address,
        description="Unix socket to listen on, such as unix:/run/inductord/inductord.sock; commands also take tcp://host:port.",
    )
    socket_group: str | None = Field(
        None, description="Group, by name or number, whose members may use the socket too. They get the owner's rights."
    )
    listen: str = Field(
        "",
        description="host:port to listen on as well, over TCP; port 0 takes a free one. Needs TLS, and tokens or a client CA.",
    )
    tls_cert: Path | None = Field(None, description="Certificate of the TCP listener (PEM, with its chain).")
    tls_key: Path | None = Field(None, description="Its key (PEM).")
    tls_client_ca: Path | None = Field(
        None, description="Authority (PEM) whose certificates clients have to show; they name the tenant."
    )
    tokens: Path | None = Field(
        None, description="File of tokens; a call over TCP has to show one, which names the tenant."
    )
    insecure: bool = Field(False, description="Listen on TCP even without TLS, tokens or client certificates.")
    metrics_address: str = Field(
        "127.0.0.1:0", description="host:port of the Prometheus endpoint; port 0 takes a free one, empty turns it off."
    )
    reflection: bool = Field(False, description="Serve gRPC reflection, for tools such as grpcurl.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["text", "json"] = Field("text", description="Log lines for people or for a log collector.")

    store_path: Path = Field(default_factory=_default_store, description="Folder of stored artifacts.")
    store_max_bytes: ByteSize = Field(
        ByteSize(20 * _GIB), ge=_MIB, description="Size of the store; least recently used artifacts go first."
    )
    memory_bytes: ByteSize = Field(ByteSize(256 * _MIB), ge=0, description="Artifacts kept in memory as well.")

    shared_store: str = Field(
        "", description="URL of a store that nodes share, such as file:///mnt/inductord or s3://bucket/folder."
    )
    shared_store_keys: Path | None = Field(
        None, description="File of the keys that sign and verify what is shared; `inductord store new-key` makes one."
    )
    shared_store_read_only: bool = Field(False, description="Read the shared store and never write it.")
    shared_store_timeout: float = Field(
        5.0, gt=0, le=60, description="Longest that a rank waits for a read of the shared store."
    )

    pool: str = Field(
        "local", description="Who compiles: local, ray (a Ray of this node or RAY_ADDRESS), or ray://host:port."
    )
    max_workers: int | None = Field(
        None, ge=1, le=4096, description="Most workers; from the CPU quota and memory when unset."
    )
    ray_min_warm: int = Field(
        1, ge=0, le=4096, description="Workers of a Ray cluster that stay warm while there is work."
    )
    ray_labels: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Parts of the toolchain by which Ray nodes are labelled, such as torch,cpu; see ray.md."
    )
    idle_seconds: float = Field(300.0, gt=0, description="After this long without work a worker leaves.")
    compile_timeout: float = Field(600.0, gt=0, description="Longest that one compile may take.")
    worker_memory_bytes: ByteSize | None = Field(
        None,
        ge=64 * _MIB,
        description="A worker above this is ended, with what it spawned; shared memory counts in part.",
    )
    worker_command: Annotated[tuple[str, ...], NoDecode] = Field(
        (sys.executable, "-m", "inductord.worker"),
        min_length=1,
        description="How a worker process is started, for example with another interpreter.",
    )
    scratch: Path | None = Field(
        None, description="Folder for the workers' temporary files; must allow execution. Found when unset."
    )

    max_graph_bytes: ByteSize = Field(ByteSize(256 * _MIB), ge=1, description="Largest graph that is taken.")
    max_artifact_bytes: ByteSize = Field(ByteSize(_GIB), ge=1, description="Largest artifact that is kept.")
    max_queue: int = Field(4096, ge=1, description="Most graphs that wait or are compiled at once.")
    max_waiters: int = Field(8192, ge=1, description="Most requests that wait at once.")
    max_pending_bytes: ByteSize = Field(
        ByteSize(2 * _GIB), ge=1, description="Most bytes of graphs that wait to be compiled."
    )
    failure_ttl: float = Field(300.0, ge=0, description="How long a graph that does not compile is remembered.")

    heartbeat_seconds: float = Field(2.0, ge=0.05, le=60, description="A waiting client hears from us this often.")
    drain_seconds: float = Field(30.0, ge=0, description="How long running compiles may go on when the daemon stops.")
    idle_exit_seconds: float = Field(
        0.0, ge=0, description="The daemon leaves after this long without a request; 0: never."
    )

    origins: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False, description="Source of each value.")

    @field_validator("address")
    @classmethod
    def _well_formed(cls, value: str) -> str:
        where = parse_address(value)
        return value if isinstance(where, TcpAddress) else f"unix:{where}"

    @field_validator("metrics_address", "listen")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        if value:
            host, separator, port = value.rpartition(":")
            if not (separator and host and port.isdecimal() and int(port) < 65536):
                raise ValueError("write host:port, such as 127.0.0.1:9464, or nothing to turn it off")
        return value

    @field_validator("pool")
    @classmethod
    def _known_pool(cls, value: str) -> str:
        if value not in ("local", "ray") and not (value.startswith("ray://") and value != "ray://"):
            raise ValueError("write local, ray or ray://host:port")
        return value

    @field_validator("worker_command", mode="before")
    @classmethod
    def _split_command(cls, value: object) -> object:
        return tuple(shlex.split(value)) if isinstance(value, str) else value

    @field_validator("ray_labels", mode="before")
    @classmethod
    def _split_labels(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("ray_labels")
    @classmethod
    def _known_labels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [part for part in value if part not in PARTS]:
            raise ValueError(f"{unknown[0]!r} is no part of a toolchain; write some of {', '.join(PARTS)}")
        return value

    @field_validator(
        "config", "store_path", "scratch", "tls_cert", "tls_key", "tls_client_ca", "tokens", "shared_store_keys"
    )
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        # The daemon may be started from a folder that goes away. No expanduser: it asks for HOME and passwd.
        return None if value is None else Path(os.path.abspath(value))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags over environment over file, each value with its origin."""
        return (_LayeredSource(settings_cls, init_settings, env_settings),)


class _LayeredSource(PydanticBaseSettingsSource):
    """Merges the sources and remembers where each value came from."""

    def __init__(
        self, settings_cls: type[BaseSettings], flags: PydanticBaseSettingsSource, env: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        self._flags = flags
        self._env = env

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        # Abstract in the base class; all values come through __call__.
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        flags, env = self._flags(), self._env()
        named = flags.get("config") or env.get("config")
        path = Path(named) if named else _default_config_file()
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for layer, origin in (
            (_read_file(path) if path else {}, f"file {path}"),
            (env, "env"),
            (flags, "flag"),
        ):
            for name, value in layer.items():
                values[name] = value
                origins[name] = f"env {ENV_PREFIX}{name.upper()}" if origin == "env" else origin
        if path and not named:
            values["config"], origins["config"] = path, "default"
        values[_ORIGINS] = origins
        return values


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} is not TOML: {error}.") from error
    for name in values:
        if name in ("config", _ORIGINS):
            raise ConfigError(f"{name!r} cannot be set in the configuration file {path}.")
        if name not in DaemonConfig.model_fields:
            raise ConfigError(f"unknown setting {name!r} in {path}.{suggestion(name, DaemonConfig.model_fields)}")
    return values


def suggestion(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """What to say behind an unknown ``name``: which of the known ones may be meant, if one is so much like it (0 to 1)."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f" Did you mean {close[0]!r}?" if close else " `inductord config` lists all settings."


def load_config(flags: Mapping[str, object] | None = None) -> DaemonConfig:
    """Settings from all sources. ``flags``: values by field name; None stands for a flag that was not given.

    Raises:
        ConfigError: when a value or the configuration file cannot be used.
    """
    given: dict[str, Any] = {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return DaemonConfig(**given)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(problem, given) for problem in error.errors())) from error
    except AddressError as error:
        raise ConfigError(f"address: {error}") from error


def _explain(problem: Mapping[str, Any], flags: Mapping[str, object]) -> str:
    path: Sequence[object] = problem["loc"]
    name = str(path[0]) if path else "settings"
    variable = f"{ENV_PREFIX}{name.upper()}"
    if problem["type"] == "extra_forbidden":
        return f"unknown setting {name!r}.{suggestion(name, DaemonConfig.model_fields)}"
    if name in flags:
        source = "flag"
    elif variable in os.environ:
        source = f"env {variable}"
    else:
        source = "configuration file"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"].startswith("byte_size"):
        message = "write a size such as 20GiB or 500MB"
    # Our own sentences name the value where it helps.
    named = problem["type"] == "value_error" and str(problem["input"]) in message
    return f"{name} ({source}): {message}" + ("" if named else f" (it is {problem['input']!r})")


def explain_config(config: DaemonConfig) -> list[tuple[str, str, str]]:
    """Name, value and source of each setting; source is ``flag``, ``env NAME``, ``file PATH`` or ``default``."""
    return [
        (name, _without_user_info(_show(getattr(config, name))), config.origins.get(name, "default"))
        for name in type(config).model_fields
        if name != _ORIGINS
    ]


def _show(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, ByteSize):
        return value.human_readable(separator=" ")
    if isinstance(value, tuple):
        return shlex.join(value)
    return str(value)


def _without_user_info(text: str) -> str:
    # Of the URL of a shared store; what is shown here ends up in bug reports.
    return re.sub(r"://[^/\s]*@", "://…@", text)
