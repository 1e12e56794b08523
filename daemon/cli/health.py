"""``inductord health``: one question to the standard gRPC health service, for probes of containers."""

from pathlib import Path

import click

from inductord.daemon.cli import options


@click.command("health")
@options.connection
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the daemon may take to answer.",
)
def command(address: str | None, config: Path | None, timeout: float) -> None:
    """Say nothing and end with 0 when the daemon serves.

    Ends with 5 and a line on stderr when no daemon answers, or it is about to end. Asks nothing of the pool or the store: a
    daemon whose Ray cluster is gone is healthy.
    """
    from inductord.daemon.client import AdminClient

    with AdminClient(options.settings(address=address, config=config).address) as client:
        client.check_health(timeout)
