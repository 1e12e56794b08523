"""``python -m inductord.daemon.cli``: the ``inductord`` script for where it is not on PATH."""

from inductord.daemon.cli import main

if __name__ == "__main__":
    main()
