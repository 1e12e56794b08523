"""The daemon that runs, and what its pool needs."""

import importlib.util
from collections.abc import Iterator

from inductord.compiler.address import TcpAddress, parse_address
from inductord.compiler.versions import KEY_FORMAT, this_version
from inductord.daemon.cli import words
from inductord.daemon.cli.checks.finding import Finding, fail, ok, warn
from inductord.daemon.client import AdminClient, ClientError, DaemonAbsent, NotAdmitted, why_unreachable
from inductord.daemon.config import DaemonConfig
from inductord.v1.admin_pb2 import Status


def daemon(config: DaemonConfig) -> Iterator[Finding]:
    """Whether a daemon answers and can talk with ranks of this release."""
    with AdminClient(config.address) as client:
        try:
            client.check_health()
            status = client.status()
        except DaemonAbsent as error:
            if isinstance(parse_address(config.address), TcpAddress):
                yield fail("daemon", str(error), "Start one there, or name another with INDUCTORD_ADDRESS.")
                return
            yield ok(
                "daemon", f"none at {config.address} ({why_unreachable(config.address)}); `inductord run` starts one"
            )
            return
        except NotAdmitted as error:
            yield fail("daemon", str(error), "docs/security.md says which certificates and tokens are needed.")
            return
        except ClientError as error:
            yield fail("daemon", str(error), "Look at its log; stop it with `inductord stop`, or by its pid.")
            return
    yield _versions(status)
    for what, note in (("pool", status.pool.note), ("store", status.store.note)):
        if note:
            yield warn(what, note, "")
    if status.store.quarantined:
        yield warn(
            "store",
            f"{words.count(status.store.quarantined, 'damaged artifact')} since the daemon's start",
            "They are compiled again. If it goes on, look at the disk; `inductord store verify` checks everything.",
        )


def _versions(status: Status) -> Finding:
    here, there = this_version(), status.version
    found = f"release {there.release}, pid {status.pid}, at {status.address}"
    restart = "Restart it: `inductord stop`, then run again."
    if there.protocol != here.protocol:
        return fail("daemon", f"{found}, speaks protocol {there.protocol}, ranks speak {here.protocol}", restart)
    if there.key_format != here.key_format:
        return fail("daemon", f"{found}, has key format {there.key_format}, ranks have {KEY_FORMAT}", restart)
    if there.release != here.release:
        return warn("daemon", f"{found}; installed is {here.release}", restart)
    return ok("daemon", found)


def ray(config: DaemonConfig) -> Iterator[Finding]:
    """Whether Ray is installed, when the pool is to be one."""
    if not config.pool.startswith("ray"):
        return
    if importlib.util.find_spec("ray") is None:
        yield fail("ray", f"not installed, and the pool is {config.pool}", "pip install 'inductord[ray]'")
    else:
        yield ok("ray", "installed")
