"""A rank that is asked for its graph and never gives it: says so by making the file STUCK, and waits to be killed.

Where a real rank's upload takes a moment, this one's takes for ever; everything else is the rank's own code.
"""

import os
import signal
from pathlib import Path

from tiny import main

from inductord.compiler.adapter import wire


def never(*_: object) -> bytes:
    """In place of ``wire.dumps``."""
    Path(os.environ["STUCK"]).touch()
    while True:
        signal.pause()


if __name__ == "__main__":
    wire.dumps = never
    main()
