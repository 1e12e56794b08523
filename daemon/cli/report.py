"""``inductord report``: what happened in a job that runs or ran, as text, JSON, a page to look at, or a trace."""

import gzip
import json
from pathlib import Path

import click

from inductord.daemon.cli import options
from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.output import print_json
from inductord.daemon.cli.protojson import as_json as message_as_json
from inductord.daemon.cli.remarks import remark

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("report")
@options.connection
@click.option("--html", "page", type=_FILE, metavar="FILE", help="Write a page with the job's timeline.")
@click.option(
    "--trace",
    type=_FILE,
    metavar="FILE",
    help="Write a trace for ui.perfetto.dev or chrome://tracing; compressed when the name ends with .gz.",
)
@options.as_json
@click.argument("job", required=False, default="")
def command(
    address: str | None, config: Path | None, page: Path | None, trace: Path | None, as_json: bool, job: str
) -> None:
    """Show what happened in JOB: who waited for whom, and where the time went.

    Without a name: the job that was seen last. The daemon remembers the last 128 jobs, also after their end.
    """
    from inductord.daemon.client import AdminClient
    from inductord.daemon.report.gather import of_daemon

    settings = options.settings(address=address, config=config)
    with AdminClient(settings.address) as client:
        report = of_daemon(client.timeline(job))
    if page is not None:
        from inductord.daemon.report.page import render

        _write(page, render(report))
    if trace is not None:
        from inductord.daemon.report.trace import events

        _write(trace, json.dumps(events(report.timeline), separators=(",", ":")))
    if as_json:
        print_json({**report.totals.as_json(), "timeline": message_as_json(report.timeline)})
    elif page is None and trace is None:
        from inductord.daemon.report.text import as_text

        click.echo("\n".join(as_text(report)))


def _write(file: Path, content: str) -> None:
    data = content.encode()
    try:
        file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    except OSError as error:
        raise CommandFailed(f"{file} could not be written: {error.strerror}.") from error
    remark(f"wrote {file}, {len(data)} bytes before compression." if file.suffix == ".gz" else f"wrote {file}.")
