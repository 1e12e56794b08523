"""``inductord warm``: has recorded graphs compiled before the job comes."""

import contextlib
import os
import sys
import time
from pathlib import Path

import click

from inductord.daemon.bundle import BundleReader, BundleRefused
from inductord.daemon.cli import options, signing, words
from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.exits import Exit
from inductord.daemon.cli.launcher import Launcher
from inductord.daemon.cli.output import print_json, progress
from inductord.daemon.cli.remarks import remark
from inductord.daemon.cli.warming import Warming
from inductord.daemon.client import AdminClient
from inductord.v1.sealed_pb2 import SEALED_CONTENT_GRAPH


@click.command("warm")
@options.started_daemon
@signing.options
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.as_json
def command(file: Path, key_file: Path | None, unsigned: bool, as_json: bool, **flags: object) -> None:
    """Have the graphs in FILE, which `record` made, compiled by the daemon's pool; what it has stored is skipped.

    A daemon is started when none answers, as by `run`. Ends with 1 when a graph was refused, is missing, or did not
    compile.
    """
    settings = options.daemon_settings(flags)
    keys = signing.keyring(settings, key_file, unsigned)
    began = time.monotonic()
    try:
        with BundleReader(file, SEALED_CONTENT_GRAPH, keys, settings.max_graph_bytes) as reader:
            address = _daemon(settings.address, options.daemon_flags(flags, settings))
            with AdminClient(address) as client:
                workers = client.status().pool.max_workers
            with (
                progress("warming", len(reader.listed)) as done,
                contextlib.closing(Warming(address, workers, done)) as warming,
            ):
                trouble = warming.run(reader)
    except BundleRefused as refused:
        raise CommandFailed(f"{file} is refused ({refused.reason}): {refused}. Nothing was compiled.") from refused
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}.") from error
    result = warming.result() | {"absent": reader.absent, "seconds": round(time.monotonic() - began, 3)}
    if as_json:
        print_json(result)
    else:
        click.echo(
            f"{words.count(result['graphs'], 'graph')}: {result['compiled']} compiled, {result['stored']} were stored "
            f"already, {len(result['failed'])} failed; {words.duration(result['seconds'])}"
        )
        for failure in result["failed"]:
            click.echo(f"  {words.short_key(failure['key'])} {failure['reason']}: {failure['message']}")
        for reason, number in result["refused"].items():
            click.echo(f"  {words.count(number, 'member')} refused: {reason}")
    if trouble:
        raise CommandFailed(f"{file}: {trouble}. What was compiled before that is stored.")
    if result["failed"] or result["refused"] or result["absent"]:
        raise CommandFailed("not all graphs are stored now; ranks will compile what is missing when they need it.")


def _daemon(address: str, flags: list[str]) -> str:
    # Signals end this command as any other; the daemon that it starts has its own session.
    launcher = Launcher(address, flags, os.environ, say=remark, pause=time.sleep, mask=())
    found = launcher.find_or_start()
    if found.problem is not None:
        raise CommandFailed(found.problem, Exit.NO_DAEMON)
    if found.started and sys.stderr.isatty():
        remark(f"started a daemon (pid {found.pid}, log {found.log}).")
    return found.address
