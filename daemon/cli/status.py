"""``inductord status``: what the daemon is doing, once or live."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import click

from inductord.daemon.cli import options
from inductord.daemon.cli.output import console, display, print_json
from inductord.daemon.cli.protojson import as_json as message_as_json
from inductord.daemon.cli.status_view import draw, line
from inductord.v1.admin_pb2 import Status


@click.command("status")
@options.connection
@click.option("--watch", "-w", is_flag=True, help="Go on showing it until interrupted.")
@click.option(
    "--interval", type=click.FloatRange(0.1, 60), default=1.0, show_default=True, metavar="SECONDS", help="For --watch."
)
@options.as_json
def command(address: str | None, config: Path | None, watch: bool, interval: float, as_json: bool) -> None:
    """Show what the daemon is doing.

    With --watch: a live view on a terminal, otherwise a line (with --json: one object a line) each interval.
    """
    from inductord.daemon.client import AdminClient

    settings = options.settings(address=address, config=config)
    with AdminClient(settings.address) as client:
        if not watch:
            status = client.status()
            if as_json:
                print_json(message_as_json(status))
            else:
                display(draw(status))
            return
        with contextlib.suppress(KeyboardInterrupt):
            _follow(client.watch(interval), as_json)


def _follow(statuses: Iterable[Status], as_json: bool) -> None:
    screen = console()
    if as_json:
        for status in statuses:
            print_json(message_as_json(status), indent=None)
    elif screen.is_terminal:
        from rich.live import Live

        with Live(console=screen, auto_refresh=False) as live:
            for status in statuses:
                live.update(draw(status), refresh=True)
    else:
        for status in statuses:
            click.echo(line(status))
