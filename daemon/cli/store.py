"""``inductord store``: the stored artifacts."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import click

from inductord.daemon.cli import bundles, options, words
from inductord.daemon.cli.artifacts import Artifacts, open_artifacts
from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.exits import Exit
from inductord.daemon.cli.output import display, facts, print_json, table
from inductord.daemon.cli.protojson import as_json as message_as_json
from inductord.daemon.cli.protojson import enum_name
from inductord.v1 import compiler_pb2
from inductord.v1.admin_pb2 import Entry

_DEFAULT_ROWS = 50
_KIND = compiler_pb2.GraphKind.DESCRIPTOR

_folder = click.option(
    "--store", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="PATH", help="Folder of the store."
)


def _open(address: str | None, config: Path | None, folder: Path | None) -> AbstractContextManager[Artifacts]:
    return open_artifacts(options.settings(address=address, config=config, store_path=folder), folder)


@click.group("store")
def command() -> None:
    """Look at, check, shrink and carry the stored artifacts.

    The daemon is asked when one runs; otherwise the store's folder is opened.
    """


for _other in (bundles.export_command, bundles.import_command, bundles.new_key_command):
    command.add_command(_other)


@command.command("ls")
@options.connection
@_folder
@click.option(
    "--limit", "-n", type=click.IntRange(min=0), default=_DEFAULT_ROWS, show_default=True, help="Most entries; 0: all."
)
@options.as_json
def ls(address: str | None, config: Path | None, folder: Path | None, limit: int, as_json: bool) -> None:
    """List entries, most recently used first. With --json: one object a line."""
    with _open(address, config, folder) as artifacts:
        entries = artifacts.entries(limit or None)
        if as_json:
            for entry in entries:
                print_json(message_as_json(entry), indent=None)
            return
        _print_entries(entries)
        status = artifacts.status()
    total = words.count(status.entries, "entry", "entries")
    where = f", in {status.path}" if status.path else ""
    click.echo(f"{total}, {words.size(status.bytes)} of {words.size(status.max_bytes)}{where}")


def _print_entries(entries: Iterator[Entry]) -> None:
    numbers = ("nodes", "size", "compile", "uses")
    shown = table("key", "graph", *numbers, "used", "job", right=numbers, whole=("key", "graph", "used"))
    now = time.time()
    for entry in entries:
        shown.add_row(
            words.short_key(entry.key),
            enum_name(_KIND, entry.kind),
            str(entry.nodes),
            words.size(entry.size),
            words.duration(entry.compile_seconds),
            str(entry.uses),
            _last_use(entry, now),
            entry.job,
        )
    if shown.row_count:
        display(shown)


def _graph(entry: Entry) -> str:
    kind = enum_name(_KIND, entry.kind)
    return f"{kind}, {words.count(entry.nodes, 'node')}" if entry.nodes else kind


def _last_use(entry: Entry, now: float) -> str:
    return words.ago(now - entry.used_unix) if entry.uses else "never"


@command.command("show")
@click.argument("key")
@options.connection
@_folder
@options.as_json
def show(key: str, address: str | None, config: Path | None, folder: Path | None, as_json: bool) -> None:
    """Show one entry with the parts of its key. KEY: a key, or at least 6 digits of its beginning."""
    with _open(address, config, folder) as artifacts:
        entry = artifacts.entry(key)
    if as_json:
        print_json(message_as_json(entry))
        return
    now = time.time()
    shown = facts()
    shown.add_row("key", entry.key)
    shown.add_row("graph", _graph(entry))
    shown.add_row("size", words.size(entry.size))
    shown.add_row("sha256", entry.sha256.hex())
    shown.add_row("compiled", f"in {words.duration(entry.compile_seconds)}, {words.ago(now - entry.created_unix)}")
    shown.add_row("used", f"{words.count(entry.uses, 'time')}, last {_last_use(entry, now)}" if entry.uses else "never")
    shown.add_row("job", entry.job or "–")
    for field, value in message_as_json(entry.toolchain).items():
        shown.add_row(field, value or "–")
    display(shown)
    if entry.key_parts:
        parts = table("part of the key", "digest or value")
        for name in sorted(entry.key_parts):
            parts.add_row(name, entry.key_parts[name])
        click.echo()
        display(parts)


@command.command("verify")
@options.connection
@_folder
@options.as_json
def verify(address: str | None, config: Path | None, folder: Path | None, as_json: bool) -> None:
    """Read every artifact and set those aside whose digest does not match.

    Ends with 1 when there were any. They are compiled again when a job next asks for them.
    """
    with _open(address, config, folder) as artifacts:
        result = artifacts.verify()
    damaged = list(result.quarantined)
    if as_json:
        print_json(message_as_json(result))
    else:
        click.echo(f"{words.count(result.checked, 'artifact')} checked, {len(damaged)} damaged.")
        for key in damaged:
            click.echo(f"  {key}")
    if damaged:
        raise CommandFailed(
            f"{words.count(len(damaged), 'damaged artifact')} moved to the store's quarantine folder. They will be "
            "compiled again when asked for. If this goes on, look at the disk.",
            Exit.FAILED,
        )


@command.command("gc")
@options.connection
@_folder
@click.option("--max-bytes", metavar="SIZE", help="Shrink to this size, such as 2GiB; absent: the store's own limit.")
@options.as_json
def gc(address: str | None, config: Path | None, folder: Path | None, max_bytes: str | None, as_json: bool) -> None:
    """Evict least recently used artifacts. Those in use stay."""
    bound = None if max_bytes is None else _parse_size(max_bytes)
    with _open(address, config, folder) as artifacts:
        result = artifacts.collect(bound)
    if as_json:
        print_json(message_as_json(result))
        return
    click.echo(
        f"{words.count(result.evicted, 'artifact')} evicted, {words.size(result.freed_bytes)} freed, "
        f"{words.size(result.bytes)} left."
    )


def _parse_size(text: str) -> int:
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = TypeAdapter(ByteSize).validate_python(text)
    except ValidationError as error:
        raise click.BadParameter(f"{text!r} is no size; write 2GiB or 500MB.", param_hint="--max-bytes") from error
    if size < 0:
        raise click.BadParameter("a size is not negative.", param_hint="--max-bytes")
    return int(size)
