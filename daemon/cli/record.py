"""``inductord record``: a training command whose graphs are kept, so that `inductord warm` can have them compiled later."""

import shutil
import sys
import tempfile
from pathlib import Path

import click
from google.protobuf.message import DecodeError

from inductord.daemon.cli import options, signing, words
from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.remarks import remark
from inductord.daemon.cli.run import launch
from inductord.daemon.report.totals import read_rank_files
from inductord.v1.admin_pb2 import Entry
from inductord.v1.sealed_pb2 import SEALED_CONTENT_GRAPH, RecordedGraph


@click.command("record", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@options.started_daemon
@signing.options
@click.option(
    "--to",
    "file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where they go.",
)
@click.argument("argv", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(file: Path, argv: tuple[str, ...], key_file: Path | None, unsigned: bool, **flags: object) -> None:
    """Run COMMAND as `run` does, and keep in FILE the graphs that it has compiled or finds stored.

    \b
      inductord record --to graphs.tar -- torchrun --nproc-per-node 8 train.py
      inductord warm graphs.tar

    The ranks start with an empty Inductor cache and without stored results of AOTAutograd, so that each graph comes by.
    Each node records what its own ranks ask for. Ends with the command's exit code.
    """
    keys = signing.keyring(options.settings(address=flags["address"], config=flags["config"]), key_file, unsigned)
    try:
        # Beside the file: where there is room for it, there is room for this.
        folder = Path(tempfile.mkdtemp(prefix=f".{file.name}.", suffix=".part", dir=file.absolute().parent))
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}.") from error

    def finish(reports: Path | None) -> None:
        from inductord.daemon.bundle import Listed, write_bundle

        read = _Recorded(folder)
        listed = [Listed(entry.key, entry.size, entry.sha256.hex()) for entry in read.entries()]
        asked = {key for rank in read_rank_files(reports)[0] for key in rank.stats.keys} if reports else set()
        write_bundle(file, SEALED_CONTENT_GRAPH, listed, read, keys)
        text = f"{words.count(len(listed), 'graph')} recorded in {file}."
        if lacking := len((asked | read.damaged) - {item.key for item in listed}):
            text += f" {words.count(lacking, 'graph')} could not be; the ranks' output says why."
        remark(text)

    try:
        (folder / "cache").mkdir()
        env = {
            "INDUCTORD_RECORD_DIR": str(folder),
            # What these caches hit never becomes a graph that a rank asks for.
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
            "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": "0",
        }
        code = launch(argv, flags, env=env, finish=finish)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


class _Recorded:
    """What the ranks left in ``folder``. Called with a key it gives the entry and the graph. ``damaged``: keys of files
    that are none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.damaged: set[str] = set()

    def entries(self) -> list[Entry]:
        """Of all graphs, by key."""
        found = []
        for path in sorted(self._folder.glob("*.graph")):
            try:
                found.append(RecordedGraph.FromString(path.read_bytes()).entry)
            except (OSError, DecodeError):
                self.damaged.add(path.stem)
        return found

    def __call__(self, key: str) -> tuple[Entry, bytes]:
        recorded = RecordedGraph.FromString((self._folder / f"{key}.graph").read_bytes())
        return recorded.entry, recorded.graph
