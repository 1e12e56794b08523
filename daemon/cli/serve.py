"""``inductord serve``: the daemon in the foreground.

Its flags are the daemon's settings, made from ``DaemonConfig``, so that neither can drift from the other. It imports
nothing that the daemon itself does not need: health shall answer within a second of the start.
"""

import asyncio
import sys
import types
import typing
from pathlib import Path
from typing import Any

import click
from pydantic import ByteSize
from pydantic.fields import FieldInfo

from inductord.daemon.config import DaemonConfig, load_config
from inductord.daemon.logs import configure_logging

_NOT_FLAGS = frozenset({"origins"})
_FLAG_NAMES = {"store_path": "--store"}
_METAVARS: dict[object, str] = {ByteSize: "SIZE", float: "SECONDS", int: "N", Path: "PATH", str: "TEXT"}


def _flag(name: str, field: FieldInfo) -> click.Option:
    flag = _FLAG_NAMES.get(name, "--" + name.replace("_", "-"))
    kind = _without_none(field.annotation)
    details: dict[str, Any] = {"default": None, "help": _help(field)}
    if kind is bool:
        return click.Option([f"{flag}/--no-{flag.removeprefix('--')}", name], **details)
    if typing.get_origin(kind) is typing.Literal:
        return click.Option([flag, name], type=click.Choice(typing.get_args(kind)), **details)
    # Values go on as they were typed: the settings parse and check them, with one message for flags, variables and
    # file.
    return click.Option([flag, name], metavar=_METAVARS.get(kind, "TEXT"), **details)


def _without_none(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType):
        (annotation,) = (part for part in typing.get_args(annotation) if part is not type(None))
    return annotation


def _help(field: FieldInfo) -> str:
    default = field.get_default()
    text = field.description or ""
    if isinstance(default, ByteSize):
        return f"{text}  [default: {default.human_readable()}]"
    if isinstance(default, str | int | float) and not isinstance(default, bool) and default != "":
        return f"{text}  [default: {default:g}]" if isinstance(default, float) else f"{text}  [default: {default}]"
    return text


@click.command(
    "serve",
    params=[_flag(name, field) for name, field in DaemonConfig.model_fields.items() if name not in _NOT_FLAGS],
)
def command(**flags: object) -> None:
    """Run the daemon of this node in the foreground.

    It ends at SIGTERM or SIGINT when running compiles are done, and at once at the second. One line on stdout says
    where it listens; its log goes to stderr. Every flag is also a setting of the configuration file and a variable:
    --max-workers is max_workers and INDUCTORD_MAX_WORKERS.
    """
    from inductord.daemon.server import Endpoints, serve

    def ready(endpoints: Endpoints) -> None:
        metrics = f", metrics at http://{endpoints.metrics_address}/metrics" if endpoints.metrics_address else ""
        network = f" and tcp://{endpoints.listen}" if endpoints.listen else ""
        click.echo(f"inductord serves at {endpoints.address}{network}{metrics}")

    config = load_config(flags)
    configure_logging(config.log_level, config.log_format)
    sys.exit(asyncio.run(serve(config, ready=ready)))
