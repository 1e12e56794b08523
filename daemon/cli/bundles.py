"""``inductord store export``, ``import`` and ``new-key``: artifacts in one signed file, and the keys for it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from inductord.daemon.bundle import BundleReader, BundleRefused, Listed, write_bundle
from inductord.daemon.cli import options, signing, words
from inductord.daemon.cli.carriers import Carrier, open_carrier
from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.exits import Exit
from inductord.daemon.cli.output import print_json, progress
from inductord.daemon.shared.events import Put
from inductord.daemon.store import ArtifactTooLarge
from inductord.v1.admin_pb2 import Entry
from inductord.v1.sealed_pb2 import SEALED_CONTENT_ARTIFACT

_bundle = click.argument("bundle", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
_folder = click.option(
    "--store", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="PATH", help="Folder of the store."
)


@click.command("export")
@_bundle
@click.option("--key", "prefixes", multiple=True, metavar="KEY", help="Of this key, or beginning of one; repeatable.")
@click.option("--job", metavar="JOB", help="What was compiled for this job.")
@click.option("--all", "everything", is_flag=True, help="All artifacts.")
@signing.options
@options.connection
@_folder
@options.as_json
def export_command(
    bundle: Path,
    prefixes: tuple[str, ...],
    job: str | None,
    everything: bool,
    key_file: Path | None,
    unsigned: bool,
    address: str | None,
    config: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Write artifacts of the store into FILE, to be imported elsewhere.

    Ends with 1 when some were evicted meanwhile, and with 6 when there is nothing to export.
    """
    if (bool(prefixes), job is not None, everything).count(True) != 1:
        raise CommandFailed("say what to export: --all, --job JOB or --key KEY.", Exit.USAGE)
    settings = options.settings(address=address, config=config, store_path=folder)
    keys = signing.keyring(settings, key_file, unsigned)
    with open_carrier(settings, folder, make=False) as carrier:
        chosen = _chosen(carrier.entries(), prefixes, job)
        if not chosen:
            raise CommandFailed("no stored artifact is what you want to export.", Exit.NOT_FOUND)
        listed = [Listed(entry.key, entry.size, entry.sha256.hex()) for entry in chosen]
        with _file_errors(bundle), progress("exporting", len(listed)) as done:
            missing = write_bundle(bundle, SEALED_CONTENT_ARTIFACT, listed, carrier.read, keys, done)
    size = bundle.stat().st_size
    exported = len(listed) - len(missing)
    if as_json:
        print_json({"file": str(bundle), "bytes": size, "exported": exported, "missing": missing})
    else:
        click.echo(f"{words.count(exported, 'artifact')}, {words.size(size)}, in {bundle}")
    if missing:
        raise CommandFailed(f"{words.count(len(missing), 'artifact')} went from the store meanwhile; export again.")


def _chosen(entries: list[Entry], prefixes: tuple[str, ...], job: str | None) -> list[Entry]:
    if job is not None:
        return [entry for entry in entries if entry.job == job]
    if not prefixes:
        return entries
    chosen: list[Entry] = []
    for prefix in prefixes:
        found = [entry for entry in entries if entry.key.startswith(prefix.lower())]
        if len(found) != 1:
            how = "fits no stored key" if not found else f"fits {len(found)} keys; give more digits"
            raise CommandFailed(f"--key {prefix} {how}.", Exit.NOT_FOUND if not found else Exit.USAGE)
        chosen += (entry for entry in found if entry not in chosen)
    return chosen


@click.command("import")
@_bundle
@signing.options
@options.connection
@_folder
@options.as_json
def import_command(
    bundle: Path,
    key_file: Path | None,
    unsigned: bool,
    address: str | None,
    config: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Take the artifacts in FILE into the store.

    A running daemon verifies them with keys of its own (shared_store_keys). Each is stored whole or not at all; what the
    store has already stays as it is. Ends with 1 when something was refused or is missing from FILE.
    """
    settings = options.settings(address=address, config=config, store_path=folder)
    keys = signing.keyring(settings, key_file, unsigned)
    counts: Counter[str] = Counter()
    with (
        _file_errors(bundle),
        BundleReader(bundle, SEALED_CONTENT_ARTIFACT, keys, settings.max_artifact_bytes) as reader,
        open_carrier(settings, folder, make=True) as carrier,
        progress("importing", len(reader.listed)) as done,
    ):
        if unsigned and not carrier.takes_unsigned:
            raise CommandFailed(
                "a running daemon takes signed artifacts only. Stop it with `inductord stop` and import into its folder.",
                Exit.USAGE,
            )
        trouble = _import(reader, carrier, counts, done)
    result: dict[str, Any] = {
        "stored": counts.pop(Put.STORED, 0),
        "present": counts.pop(Put.PRESENT, 0),
        "absent": reader.absent,
        "refused": dict(sorted(counts.items())),
    }
    if as_json:
        print_json(result)
    else:
        click.echo(f"{result['stored']} stored, {result['present']} were there already, {result['absent']} missing.")
        for reason, number in result["refused"].items():
            click.echo(f"  {words.count(number, 'member')} refused: {reason}")
    if trouble:
        raise CommandFailed(f"{bundle}: {trouble}. What was imported before that stays.")
    if result["refused"] or result["absent"]:
        raise CommandFailed(f"{bundle} is not as it was exported; what is sound in it was imported.")


def _import(reader: BundleReader, carrier: Carrier, counts: Counter[str], done: Any) -> str:
    """Take all that is sound. Returns why it ended early, if it did."""
    try:
        for number, member in enumerate(reader.members(), start=1):
            if member.unsealed is None or member.listed is None:
                counts[str(member.refusal)] += 1
            else:
                try:
                    counts[carrier.put(member.listed.key, member.sealed, member.unsealed)] += 1
                except ArtifactTooLarge:
                    counts["too_large"] += 1
            done(number)
    except BundleRefused as refused:
        counts[refused.reason] += 1
        return str(refused)
    return ""


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except BundleRefused as refused:
        raise CommandFailed(f"{path} is refused ({refused.reason}): {refused}. Nothing was taken from it.") from refused
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}.") from error


@click.command("new-key")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--standby", is_flag=True, help="It verifies and does not sign yet: the first step of a change of keys.")
def new_key_command(file: Path, standby: bool) -> None:
    """Put a new key into FILE, which is made if it is not there.

    The first key of the file signs what this node publishes, all of them verify. The new one comes first, or last with
    --standby. Daemons read the file again when it changes.
    """
    from inductord.daemon.shared.keys import add_new

    keys = add_new(file, standby=standby)
    click.echo(f"{words.count(len(keys.keys), 'key')} in {file}; {keys.signer.hex()} signs.")
