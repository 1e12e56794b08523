"""``inductord token``: tokens of tenants, for the TCP listener."""

from pathlib import Path

import click

from inductord.daemon.cli import options
from inductord.daemon.cli.errors import CommandFailed
from inductord.daemon.cli.remarks import remark


@click.group("token")
def command() -> None:
    """Tokens with which tenants use the daemon over TCP.

    The daemon keeps digests only. To withdraw a token, remove its line from the file; a running daemon takes notice.
    """


@command.command("new")
@click.option("--tenant", required=True, metavar="NAME", help="Whose token it is: whose keys its jobs share.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="File of digests; the setting `tokens` when absent.",
)
@options.config_file
def new(tenant: str, file: Path | None, config: Path | None) -> None:
    """Make a token and print it, once. Its digest is added to the file of tokens, which is made when there is none.

    A tenant may have several tokens, so that one can be replaced while the other still works.
    """
    from inductord.daemon.auth import tokens
    from inductord.daemon.tenancy import is_tenant

    if not is_tenant(tenant):
        raise click.BadParameter(
            "a name has at most 128 letters, digits and ._:- and begins with a letter or digit.", param_hint="--tenant"
        )
    path = file or options.settings(config=config).tokens
    if path is None:
        raise click.UsageError("give --file, or set `tokens` to the file of tokens.")
    token = tokens.new_token()
    try:
        tokens.add(path, tenant, token)
    except OSError as error:
        raise CommandFailed(f"the digest cannot be added to {path}: {error.strerror}. No token was made.") from error
    click.echo(token)
    remark(f"its digest is in {path}. The token itself is nowhere else: keep it now.")
