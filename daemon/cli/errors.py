"""From typed exceptions to a line on stderr and an exit code, in one place.

Exceptions that are not known here are defects: they pass, with their traceback.
"""

from inductord.daemon.cli.exits import Exit


class CommandFailed(Exception):
    """Ends the command with a message for people and an exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def translated(error: Exception) -> CommandFailed | None:
    """What to tell about ``error``, or ``None`` for a defect."""
    # Imported here: only a command that failed pays for them.
    from inductord.compiler.address import AddressError
    from inductord.daemon import client
    from inductord.daemon.config import ConfigError
    from inductord.daemon.shared.errors import SharedStoreUnusable
    from inductord.daemon.store import StoreBusy, StoreUnusable

    match error:
        case CommandFailed():
            return error
        case ConfigError() | AddressError() | client.BadRequest():
            return CommandFailed(str(error), Exit.USAGE)
        case client.DaemonAbsent():
            return CommandFailed(f"{error} Start one with `inductord serve`.", Exit.NO_DAEMON)
        case client.DaemonSilent() | client.DaemonDraining():
            return CommandFailed(str(error), Exit.NO_DAEMON)
        case client.NotFound():
            return CommandFailed(str(error), Exit.NOT_FOUND)
        case StoreBusy():
            return CommandFailed(str(error), Exit.STORE_BUSY)
        case client.ClientError() | StoreUnusable() | SharedStoreUnusable():
            return CommandFailed(str(error))
    return None
