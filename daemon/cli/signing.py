"""Whether bundles are signed, and with which keys: options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.exits import Exit

if TYPE_CHECKING:
    from inductord.daemon.config import DaemonConfig
    from inductord.daemon.shared.keys import Keyring

_key_file = click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keys that sign and verify; absent: the setting shared_store_keys.",
)
_unsigned = click.option(
    "--unsigned", is_flag=True, help="Without signatures: whoever can change the file can run code as you."
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--key-file`` and ``--unsigned``, passed on as ``key_file`` and ``unsigned``."""
    return _key_file(_unsigned(command))


def keyring(config: "DaemonConfig", key_file: Path | None, unsigned: bool) -> "Keyring | None":
    """The keys to use, None for no signatures.

    Raises:
        CommandFailed: it is not said which.
        KeysUnusable: the file cannot be used.
    """
    if unsigned:
        if key_file is not None:
            raise CommandFailed("--unsigned and --key-file exclude each other.", Exit.USAGE)
        return None
    path = key_file or config.shared_store_keys
    if path is None:
        raise CommandFailed(
            "a bundle is code and needs keys that sign it: give --key-file, or set shared_store_keys; `inductord store "
            "new-key FILE` makes one. --unsigned goes without, where nobody else can change the file.",
            Exit.USAGE,
        )
    from inductord.daemon.shared.keys import read

    return read(path)
