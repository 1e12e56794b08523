"""``inductord doctor``: look at this machine, with a mend for each finding."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from inductord.daemon.cli import options, words
from inductord.daemon.cli.checks import machine, service, shared, software
from inductord.daemon.cli.checks.finding import Finding, Level, fail
from inductord.daemon.cli.exits import Exit
from inductord.daemon.cli.output import display, print_json
from inductord.daemon.config import ConfigError, DaemonConfig

_SOFTWARE: Sequence[Callable[[], Iterator[Finding]]] = (
    software.python,
    software.packages,
    software.entry_points,
    software.variables,
)
_CONFIGURED: Sequence[Callable[[DaemonConfig], Iterator[Finding]]] = (
    machine.cxx,
    machine.headers,
    machine.limits,
    machine.scratch,
    machine.socket_folder,
    machine.store,
    machine.home,
    machine.user,
    machine.shared_memory,
    service.ray,
    shared.shared_store,
    service.daemon,
)
_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


@click.command("doctor")
@options.connection
@options.as_json
@click.pass_context
def command(ctx: click.Context, address: str | None, config: Path | None, as_json: bool) -> None:
    """Check this machine, with a mend for each finding.

    Ends with 1 when a check failed. Warnings are things that work with less than one may expect.
    """
    findings = list(_look(address, config))
    failed = sum(finding.level is Level.FAIL for finding in findings)
    if as_json:
        print_json({"ok": not failed, "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        display(_draw(findings))
        warned = sum(finding.level is Level.WARN for finding in findings)
        click.echo(f"\n{words.count(failed, 'failure')}, {words.count(warned, 'warning')}.")
    ctx.exit(Exit.FAILED if failed else Exit.OK)


def _look(address: str | None, config: Path | None) -> Iterator[Finding]:
    for check in _SOFTWARE:
        yield from _guarded(check.__name__, check)
    try:
        settings = options.settings(address=address, config=config)
    except ConfigError as error:
        yield fail("settings", str(error), "Mend that first; `inductord config` shows where values come from.")
        return
    for configured in _CONFIGURED:
        yield from _guarded(configured.__name__, functools.partial(configured, settings))


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - a check that trips is a finding, and the others shall still be seen
        yield fail(name.replace("_", " "), f"the check itself failed: {type(error).__name__}: {error}", "Report this.")


def _draw(findings: Sequence[Finding]) -> Table:
    shown = Table.grid(padding=(0, 2))
    shown.add_column(no_wrap=True)
    shown.add_column(no_wrap=True)
    shown.add_column(overflow="fold")
    for finding in findings:
        text = Text(finding.found)
        if finding.mend:
            text.append(f"\n{finding.mend}", style="italic")
        shown.add_row(Text(finding.level, style=_STYLES[finding.level]), finding.check, text)
    return shown
