"""Options that several commands share, and the way from flags to settings."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from inductord.daemon.config import DaemonConfig

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

as_json: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")

address: Decorator = click.option(
    "--address", metavar="ADDRESS", help="Socket of the daemon, such as unix:/run/inductord/inductord.sock."
)

config_file: Decorator = click.option(
    "--config", metavar="FILE", type=click.Path(path_type=Path), help="Configuration file (TOML)."
)


def connection(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--address`` and ``--config``: what a command needs to find the daemon. Passed on as ``address`` and
    ``config``."""
    return address(config_file(command))


def settings(**flags: object) -> "DaemonConfig":
    """Settings in force, given these flags (``None``: not given).

    Raises:
        ConfigError: when a value cannot be used.
    """
    from inductord.daemon.config import load_config

    return load_config(flags)
