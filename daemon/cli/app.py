"""The ``inductord`` command: the table of its subcommands, and what is common to all of them."""

import importlib
from collections.abc import Mapping
from typing import Any

import click

from inductord import __version__
from inductord.daemon.cli.errors import translated
from inductord.daemon.cli.remarks import remark

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Run a training command with its compiles shared."),
    "record": ("record", "Run a training command and keep its graphs in a file."),
    "warm": ("warm", "Have recorded graphs compiled before a job needs them."),
    "serve": ("serve", "Run the daemon of this node in the foreground."),
    "stop": ("stop", "Stop the daemon when its running compiles are done."),
    "status": ("status", "Show what the daemon is doing."),
    "report": ("report", "Show what happened in a job: as text, page or trace."),
    "store": ("store", "Look at, check, shrink and carry the stored artifacts."),
    "health": ("health", "Ask the daemon whether it serves; for probes."),
    "explain": ("explain", "Say how graphs were cut, or which parts of two keys differ."),
    "token": ("token", "Make tokens, with which tenants use the daemon over TCP."),
    "config": ("config", "Show the settings in force and where each comes from."),
    "doctor": ("doctor", "Check this machine, with a mend for each finding."),
}
"""Command: its module in this package, which defines ``command``, and its line in ``--help``."""


class LazyGroup(click.Group):
    """Imports a command when it is called. ``--help`` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which people meet them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or ``None`` when there is no such."""
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command = importlib.import_module(f"inductord.daemon.cli.{module}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"inductord.daemon.cli.{module}.command is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table above, without imports."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; known errors become a message and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            failure = translated(error)
            if failure is None:
                raise
            remark(str(failure))
            raise click.exceptions.Exit(failure.code) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="inductord")
def inductord() -> None:
    """Compile each distinct PyTorch graph once: on this node, and in every later job.

    \b
    Most jobs need one command:
      inductord run -- torchrun --nproc-per-node 8 train.py
    """
