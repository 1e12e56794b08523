"""``inductord run``: a training command with its compiles shared, then a short report.

The command comes first. Whatever goes wrong with the daemon or the report is said on stderr, and the command runs and
ends as it would have without inductord: same terminal, same signals, same exit code.
"""

import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from inductord.daemon.cli import options
from inductord.daemon.cli.errors import translated
from inductord.daemon.cli.exits import CANNOT_EXECUTE, COMMAND_NOT_FOUND, SIGNAL_BASE
from inductord.daemon.cli.remarks import remark
from inductord.daemon.cli.signals import Interrupted, SignalGate

_REPORT_TIMEOUT_S = 3.0

_FORMS = ("text", "json", "none")


class ReportForm(click.ParamType):  # type: ignore[type-arg]  # generic in later releases of click only
    """One of the forms of the report on stderr, or the path of a page."""

    name = "report"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value, if it is either."""
        if value not in _FORMS and not value.endswith(".html"):
            self.fail(f"{value!r} is none of {', '.join(_FORMS)}, and no file whose name ends with .html.", param, ctx)
        return value


@click.command("run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@options.started_daemon
@click.option(
    "--report",
    "form",
    type=ReportForm(),
    default="text",
    metavar="text|json|none|FILE.html",
    help="The report on stderr; with a file: text there, and a page with the job's timeline.",
)
@click.option(
    "--report-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="Write it, as JSON, here too.",
)
@click.argument("argv", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(form: str, report_file: Path | None, argv: tuple[str, ...], **flags: object) -> None:
    """Run COMMAND with every torch.compile in it routed through the daemon of this node.

    \b
      inductord run -- torchrun --nproc-per-node 8 train.py

    A daemon is started when none answers; it leaves by itself when it has been idle for ten minutes. Without a daemon
    the command runs all the same and compiles as ever. Ends with the command's exit code, 128 + n when signal n ended
    it.
    """
    sys.exit(launch(argv, flags, form=form, report_file=report_file))


def launch(
    argv: Sequence[str],
    flags: Mapping[str, object],
    *,
    form: str = "text",
    report_file: Path | None = None,
    env: Mapping[str, str] | None = None,
    finish: Callable[[Path | None], None] | None = None,
) -> int:
    """Run a command through the daemon. Returns its exit code. Leaves the process when it cannot be started.

    ``flags``: values of ``options.started_daemon``. ``env``: further variables of the command. ``finish`` is called when
    the command ended, with the folder of the ranks' reports if there is one.
    """
    # Before anything imports gRPC, whose threads would otherwise receive the signals.
    with SignalGate() as signals:
        try:
            found_address = _prepare_daemon(flags, signals)
        except Interrupted as interrupted:
            remark(f"{interrupted}; the command was not started.")
            sys.exit(SIGNAL_BASE + interrupted.signum)
        job = os.environ.get("INDUCTORD_JOB") or secrets.token_hex(6)
        with _report_folder() as folder:
            code = _run(argv, _environment({**os.environ, **(env or {})}, found_address, job, folder), signals)
            try:
                if folder is not None and (form != "none" or report_file is not None):
                    _report(job, folder, found_address, form, report_file)
            except Exception as error:  # noqa: BLE001 - the command has ended, and its exit code must come through
                remark(f"the report could not be made: {error} ({type(error).__name__}).")
            try:
                if finish is not None:
                    finish(folder)
            except Exception as error:  # noqa: BLE001 - as above
                remark(f"the graphs could not be kept: {error} ({type(error).__name__}).")
    return code


def _prepare_daemon(flags: Mapping[str, object], signals: SignalGate) -> str | None:
    """Address of the daemon for the job, running if it can be had; ``None`` when not even an address is known."""
    settings_address = None
    try:
        from inductord.daemon.cli.launcher import Launcher
        from inductord.daemon.cli.variables import remark_unknown

        remark_unknown(os.environ)
        settings = options.daemon_settings(flags)
        settings_address = settings.address
        launcher = Launcher(
            settings_address,
            options.daemon_flags(flags, settings),
            os.environ,
            say=remark,
            pause=signals.pause,
            mask=signals.outside_mask,
        )
        found = launcher.find_or_start()
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the command must run
        known = translated(error)
        said = f"{error} ({type(error).__name__})." if known is None else str(known)
        remark(f"{said} The command runs without the daemon and compiles as ever.")
        return settings_address
    if found.problem is not None:
        remark(f"{found.problem} The command runs all the same; what the daemon cannot serve is compiled as ever.")
    elif found.started and sys.stderr.isatty():
        remark(f"started a daemon (pid {found.pid}, log {found.log}).")
    return found.address


def _environment(outer: Mapping[str, str], address: str | None, job: str, folder: Path | None) -> dict[str, str]:
    env = {**outer, "INDUCTORD": "1", "INDUCTORD_JOB": job}
    if address is not None:
        env["INDUCTORD_ADDRESS"] = address
    if folder is not None:
        env["INDUCTORD_REPORT_DIR"] = str(folder)
    if outer.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        remark(
            'TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps PyTorch from loading inductord; only backend="inductord" in the '
            "script will reach it. Unset the variable to route every torch.compile."
        )
    return env


@contextlib.contextmanager
def _report_folder() -> Iterator[Path | None]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="inductord-run-"))
    except OSError as error:
        remark(f"no folder for the ranks' reports ({error}); there will be no report.")
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(argv: Sequence[str], env: Mapping[str, str], signals: SignalGate) -> int:
    from inductord.daemon.cli.process import start_command, wait_for_command

    try:
        pid = start_command(list(argv), env, signals.outside_mask)
    except FileNotFoundError:
        remark(f"{argv[0]}: command not found.")
        sys.exit(COMMAND_NOT_FOUND)
    except OSError as error:
        remark(f"{argv[0]} cannot be executed: {error.strerror}.")
        sys.exit(CANNOT_EXECUTE)
    return wait_for_command(pid, signals)


def _report(job: str, folder: Path, address: str | None, form: str, file: Path | None) -> None:
    from inductord.daemon.client import AdminClient, ClientError, NotFound
    from inductord.daemon.report.gather import of_run
    from inductord.daemon.report.totals import as_text, read_rank_files
    from inductord.v1.admin_pb2 import Timeline

    ranks, damaged = read_rank_files(folder)
    notes, timeline = [], None
    if address is not None:
        try:
            with AdminClient(address, timeout=_REPORT_TIMEOUT_S) as client:
                timeline = Timeline(job=client.job(job))
                if form not in _FORMS:
                    timeline = client.timeline(job)
        except NotFound:
            # No rank of the job reached it; that is the report's to say.
            timeline = None
        except ClientError as error:
            notes.append(f"{error} What stands here is what the ranks say.")
    report = of_run(job, ranks, daemon=timeline, notes=notes, damaged=damaged)
    if form == "json":
        sys.stderr.write(json.dumps(report.totals.as_json(), ensure_ascii=False) + "\n")
    elif form != "none":
        sys.stderr.write("\n".join(as_text(report.totals)) + "\n")
    if file is not None:
        _written(file, lambda: json.dumps(report.totals.as_json(), indent=2, ensure_ascii=False) + "\n")
    if form not in _FORMS:
        from inductord.daemon.report.page import render

        if _written(Path(form), lambda: render(report)):
            remark(f"wrote {form}.")


def _written(file: Path, content: Callable[[], str]) -> bool:
    try:
        file.write_text(content(), encoding="utf-8")
    except OSError as error:
        remark(f"the report could not be written to {file}: {error.strerror}.")
        return False
    return True
