"""Exit codes of the command line. Scripts depend on them: they are stable and documented in ``docs/cli.md``."""

import enum


class Exit(enum.IntEnum):
    """Why a command ended. ``run`` ends with its command's own code instead."""

    OK = 0
    # A check of `doctor` failed, `store verify` found damage, or something went wrong that no other code names.
    FAILED = 1
    # Wrong arguments or configuration.
    USAGE = 2
    # Another daemon has the socket.
    SOCKET_BUSY = 3
    # Another daemon has the store.
    STORE_BUSY = 4
    # No daemon answers.
    NO_DAEMON = 5
    # There is no such entry.
    NOT_FOUND = 6


# What shells use for commands that cannot be run, and for deaths by signal.
CANNOT_EXECUTE = 126
COMMAND_NOT_FOUND = 127
SIGNAL_BASE = 128
