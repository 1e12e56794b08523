"""The command line: what people and scripts type.

One small module for each command, imported when it is asked for, so that ``--help`` and ``serve`` start fast. Commands
talk to a running daemon through ``inductord.daemon.client``; nothing here imports torch, and nothing else of inductord
may import this package.
"""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the ``inductord`` script. Exit codes: see ``inductord.daemon.cli.exits``."""
    try:
        from inductord.daemon.cli.app import inductord
    except ModuleNotFoundError as error:
        # Ranks install the light package; its script is there as well.
        if (error.name or "").partition(".")[0] == "inductord":
            raise
        sys.stderr.write(
            f"inductord: the command line needs {error.name}, which is not installed here. "
            "Install it with: pip install 'inductord[daemon]'\n"
        )
        sys.exit(1)
    inductord.main(prog_name="inductord")
