"""``inductord explain``: how a graph was cut into pieces and why, and which parts of two keys differ."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import click

from inductord.daemon.cli import options, words
from inductord.daemon.cli.artifacts import open_artifacts
from inductord.daemon.cli.cut_view import as_text
from inductord.daemon.cli.output import display, print_json, table
from inductord.daemon.cli.protojson import as_json as message_as_json
from inductord.daemon.client import AdminClient
from inductord.daemon.tenancy import split
from inductord.v1.admin_pb2 import Entry


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Parts by name, with both values where they differ; a part that one key does not have is ``None``."""

    differ: Mapping[str, tuple[str | None, str | None]]
    equal: tuple[str, ...]


def compare(a: Mapping[str, str], b: Mapping[str, str]) -> Difference:
    """Compare the parts of two keys. Pure."""
    names = sorted(a.keys() | b.keys())
    return Difference(
        {name: (a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name)},
        tuple(name for name in names if a.get(name) == b.get(name)),
    )


def parts(entry: Entry) -> dict[str, str]:
    """The parts of an entry's key, and what its toolchain is in the open: a digest says only that it differs."""
    toolchain = {f"toolchain.{name}": str(value) for name, value in message_as_json(entry.toolchain).items() if value}
    return toolchain | dict(entry.key_parts)


@click.command("explain")
@click.argument("a", required=False, metavar="[KEY]")
@click.argument("b", required=False, metavar="[OTHER]")
@options.connection
@click.option("--job", metavar="JOB", default="", help="Graphs of this job, without a key.")
@click.option(
    "--store",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="PATH",
    help="Folder of the store, for two keys.",
)
@options.as_json
def command(
    a: str | None,
    b: str | None,
    address: str | None,
    config: Path | None,
    job: str,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Say how graphs were cut into pieces, and why, or which parts of two keys differ.

    With one KEY: the graph that it is a piece of. With two: which parts of them differ. With none: all graphs of the job
    that was seen last, or of --job. A key may be 6 or more digits of its beginning; `inductord store ls` lists keys.

    The daemon remembers what ranks told of their graphs until it ends or newer graphs need the room. What two keys were made
    of is stored with their entries; parts are shown as short digests where their values are long.
    """
    if job and a:
        raise click.UsageError("Give keys or --job, not both.")
    if folder is not None and b is None:
        raise click.UsageError("--store is for two keys: how graphs were cut is known to a daemon alone.")
    settings = options.settings(address=address, config=config, store_path=folder)
    if a is None or b is None:
        with AdminClient(settings.address) as client:
            answer = client.cuts(job=job, key=(a or "").lower())
        if as_json:
            print_json(message_as_json(answer))
        else:
            click.echo("\n".join(as_text(answer, split((a or "").lower())[1])))
        return
    with open_artifacts(settings, folder) as artifacts:
        first, second = artifacts.entry(a), artifacts.entry(b)
    _show(first, second, as_json=as_json)


def _show(first: Entry, second: Entry, *, as_json: bool) -> None:
    found = compare(parts(first), parts(second))
    if as_json:
        print_json(
            {
                "a": first.key,
                "b": second.key,
                "same": first.key == second.key,
                "differ": {name: list(values) for name, values in found.differ.items()},
                "equal": list(found.equal),
            }
        )
        return
    if first.key == second.key:
        click.echo(f"Both are the key {first.key}.")
        return
    if not found.differ:
        click.echo("The keys differ and all recorded parts are equal: the entries were recorded without their parts.")
        return
    shown = table("part", words.short_key(first.key), words.short_key(second.key))
    for name, values in found.differ.items():
        shown.add_row(name, *(value or "–" for value in values))
    display(shown)
    number = len(found.differ)
    of = words.count(number + len(found.equal), "part")
    click.echo(f"{number} of {of} {'differs' if number == 1 else 'differ'}.")
