"""Options that several commands share, and the way from flags to settings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from inductord.daemon.config import DaemonConfig

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

as_json: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")

address: Decorator = click.option(
    "--address",
    metavar="ADDRESS",
    help="Where the daemon is, such as unix:/run/inductord/inductord.sock or tcp://host:7777.",
)

config_file: Decorator = click.option(
    "--config", metavar="FILE", type=click.Path(path_type=Path), help="Configuration file (TOML)."
)


def connection(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--address`` and ``--config``: what a command needs to find the daemon. Passed on as ``address`` and
    ``config``."""
    return address(config_file(command))


_pool: Decorator = click.option(
    "--pool", metavar="POOL", help="Pool of a daemon that is started: local, ray or ray://host:port."
)
_store: Decorator = click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="PATH",
    help="Store of a daemon that is started.",
)
_max_workers: Decorator = click.option(
    "--max-workers", type=click.IntRange(min=1), metavar="N", help="Workers of a daemon that is started."
)

_IDLE_EXIT_S = 600.0


def started_daemon(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--address``, ``--config``, ``--pool``, ``--store``, ``--max-workers``: of a daemon that is found or started. What
    is passed on by these names is for `daemon_settings` and `daemon_flags`."""
    return connection(_pool(_store(_max_workers(command))))


def daemon_settings(flags: Mapping[str, object]) -> "DaemonConfig":
    """Settings in force, given the values of `started_daemon`.

    Raises:
        ConfigError: when a value cannot be used.
    """
    names = {
        "address": "address",
        "config": "config",
        "pool": "pool",
        "store": "store_path",
        "max_workers": "max_workers",
    }
    return settings(**{name: flags[flag] for flag, name in names.items()})


def daemon_flags(flags: Mapping[str, object], config: "DaemonConfig") -> list[str]:
    """The flags for a daemon that is started for one job: it leaves by itself."""
    given = [
        f"--{name.replace('_', '-')}={flags[name]}"
        for name in ("pool", "store", "max_workers", "config")
        if flags[name] is not None
    ]
    if not config.idle_exit_seconds:
        given.append(f"--idle-exit-seconds={_IDLE_EXIT_S:g}")
    return given


def settings(**flags: object) -> "DaemonConfig":
    """Settings in force, given these flags (``None``: not given).

    Raises:
        ConfigError: when a value cannot be used.
    """
    from inductord.daemon.config import load_config

    return load_config(flags)
