"""``inductord stop``: drain the daemon, and return when it is gone."""

import time
from pathlib import Path

import click

from inductord.daemon.cli import options
from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.output import print_json
from inductord.daemon.cli.remarks import remark
from inductord.daemon.cli.words import duration

_POLL_S = 0.05
# Beyond the drain: workers are ended and the store is closed.
_GRACE_S = 30.0


@click.command("stop")
@options.connection
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long running compiles may go on; the daemon's own setting when absent, 0 gives them up at once.",
)
@options.as_json
def command(address: str | None, config: Path | None, drain: float | None, as_json: bool) -> None:
    """Stop the daemon and wait until it is gone.

    New compiles are refused at once and running ones finish within the drain time; ranks that ask meanwhile compile
    locally. It is no error when no daemon runs.
    """
    from inductord.daemon.cli.departure import Departure
    from inductord.daemon.client import AdminClient, DaemonAbsent, DaemonDraining

    settings = options.settings(address=address, config=config)
    began = time.monotonic()
    stopped = True
    with AdminClient(settings.address) as client, Departure(settings.address) as departure:
        try:
            client.shutdown(drain)
        except DaemonAbsent:
            stopped = False
        except DaemonDraining:
            remark("the daemon is being stopped already; waiting for its end.")
        # A daemon may have been started with a longer drain time than the settings here say; `--drain` decides then.
        bound = _GRACE_S + (settings.drain_seconds if drain is None else drain)
        while stopped and not departure.over():
            if time.monotonic() - began > bound:
                raise CommandFailed(
                    f"the daemon at {settings.address} took note and is still there after {duration(bound)}. "
                    "`inductord status` shows what it waits for. If it does not end, end it by its pid."
                )
            time.sleep(_POLL_S)
    seconds = round(time.monotonic() - began, 3)
    if as_json:
        print_json({"address": settings.address, "was_running": stopped, "seconds": seconds})
    elif stopped:
        click.echo(f"Stopped the daemon at {settings.address} in {duration(seconds)}.")
    else:
        click.echo(f"No daemon runs at {settings.address}.")
