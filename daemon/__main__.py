"""``python -m inductord.daemon``: the same as ``inductord serve``, where the console script is not on PATH."""

import sys

from inductord.daemon.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "serve")
    main()
