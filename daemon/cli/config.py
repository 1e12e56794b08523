"""``inductord config``: the settings in force, and where each value came from."""

import os
from pathlib import Path

import click

from inductord.daemon.cli import options
from inductord.daemon.cli.output import display, print_json, table


@click.command("config")
@options.connection
@options.as_json
def command(address: str | None, config: Path | None, as_json: bool) -> None:
    """Show the settings in force and where each value comes from.

    Flags are stronger than INDUCTORD_* variables, those are stronger than the configuration file, and that is stronger
    than the defaults. A daemon that runs already keeps the settings that it was started with.
    """
    from inductord.daemon.cli.variables import remark_unknown
    from inductord.daemon.config import explain_config

    rows = explain_config(options.settings(address=address, config=config))
    if as_json:
        print_json({name: {"value": value or None, "source": source} for name, value, source in rows})
        return
    shown = table("setting", "value", "source")
    for name, value, source in rows:
        plain = source == "default"
        shown.add_row(name, value or "–", source, style="dim" if plain else None)
    display(shown)
    remark_unknown(os.environ)
