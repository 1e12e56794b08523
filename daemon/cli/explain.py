"""``inductord explain``: which parts of two keys differ, so why one graph was not found under the other's key."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import click

from inductord.daemon.cli import options, words
from inductord.daemon.cli.artifacts import open_artifacts
from inductord.daemon.cli.output import display, print_json, table
from inductord.daemon.cli.protojson import as_json as message_as_json
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
@click.argument("a")
@click.argument("b")
@options.connection
@click.option(
    "--store", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="PATH", help="Folder of the store."
)
@options.as_json
def command(a: str, b: str, address: str | None, config: Path | None, folder: Path | None, as_json: bool) -> None:
    """Say which parts of two keys differ. A and B: keys of stored entries, or at least 6 digits of their beginnings.

    `inductord store ls` lists keys. Parts are shown as short digests where their values are long.
    """
    settings = options.settings(address=address, config=config, store_path=folder)
    with open_artifacts(settings, folder) as artifacts:
        first, second = artifacts.entry(a), artifacts.entry(b)
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
