"""The TCP listener with TLS and client certificates: who is taken, who is not, and what happens when files change."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.certificates import Authority, replace
from support.daemon import DaemonProcess, running_daemon, wait_until
from support.pools import DEADLINE_S, script
from support.rank import key_of
from support.scrape import nonzero, page, samples, value
from support.tcp import ask, client, refused, secured, tcp_address

from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable
from inductord.daemon.client import AdminClient, ClientError, NotAdmitted
from inductord.v1 import compiler_pb2 as pb

pytestmark = pytest.mark.wire

GRAPH = script(["size", 200_000])


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A daemon that takes certificates of ``authority``, and what it takes to be one of its clients."""
    folder = tmp_path_factory.mktemp("mutual")
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    shown = authority.issue("daemon")
    settings: dict[str, Any] = {
        "listen": "localhost:0",
        "tls_cert": shown.cert,
        "tls_key": shown.key,
        "tls_client_ca": authority.ca,
    }
    with running_daemon(folder, **settings) as daemon:
        yield SimpleNamespace(
            daemon=daemon,
            address=tcp_address(daemon),
            authority=authority,
            stranger=stranger,
            ours=authority.issue("acme"),
        )


def test_a_client_with_a_certificate_is_served_bytes(mutual: SimpleNamespace) -> None:
    env = secured(mutual.authority.ca, mutual.ours)
    begun, sound = connections_of(mutual.daemon)
    first, second = ask(mutual.address, env, GRAPH), ask(mutual.address, env, GRAPH)
    # Each connected once; a slow machine may make gRPC try the host's other address as well.
    assert connections_of(mutual.daemon)[1] == sound + 2
    assert connections_of(mutual.daemon)[0] >= begun + 2
    assert (first.served, second.served) == (pb.SERVED_LED, pb.SERVED_HIT)
    assert first.artifact == second.artifact
    # Not a file of the daemon's machine.
    assert "lent" not in nonzero(mutual.daemon, "inductord_store_reads_total")
    with AdminClient(mutual.daemon.address) as owner:
        assert f"acme/{key_of(GRAPH)}" in {entry.key for entry in owner.entries()}


Refused = Callable[[SimpleNamespace], dict[str, str]]


@pytest.mark.parametrize(
    ("environ", "said", "logged"),
    [
        (lambda it: secured(it.authority.ca), "wants a certificate", "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
        (
            lambda it: secured(it.authority.ca, it.stranger.issue("acme")),
            "does not take our certificate, and its log says why",
            "unable to get local issuer certificate",
        ),
        (
            lambda it: secured(it.authority.ca, it.authority.issue("acme", ended=True)),
            "does not take our certificate, and its log says why",
            "certificate has expired",
        ),
        (lambda it: secured(it.stranger.ca, it.ours), "unable to get local issuer certificate", "Handshake failed"),
        (
            lambda it: secured(it.authority.ca, it.ours, INDUCTORD_TLS_SERVER_NAME="elsewhere"),
            "elsewhere",
            "Handshake failed",
        ),
    ],
    ids=["no certificate", "wrong authority", "expired", "the daemon's authority is unknown", "wrong name"],
)
def test_a_handshake_that_fails_is_said_at_once(
    mutual: SimpleNamespace, environ: Refused, said: str, logged: str
) -> None:
    requests = mutual.daemon.status().totals.requests
    connections = connections_of(mutual.daemon)
    before = len(mutual.daemon.log())
    reason, message = refused(mutual.address, environ(mutual))
    assert reason is Fallback.UNAUTHENTICATED
    assert said in message
    assert mutual.daemon.status().totals.requests == requests
    begun, sound = connections_of(mutual.daemon)
    assert (begun > connections[0], sound) == (True, connections[1])
    # What the client cannot know, gRPC writes there.
    wait_until(lambda: logged in mutual.daemon.log()[before:], "the daemon's side is logged")


def connections_of(daemon: DaemonProcess) -> tuple[int, int]:
    """How many began, and how many of them were sound."""
    counted = samples(page(daemon))
    begun, sound = (value(counted, f"inductord_tls_connections{which}_total") for which in ("", "_sound"))
    return int(begun), int(sound)


def test_a_plain_client_on_the_tls_port(mutual: SimpleNamespace) -> None:
    _, sound = connections_of(mutual.daemon)
    reason, message = refused(mutual.address, {})
    assert (reason, "set INDUCTORD_TLS_CA" in message) == (Fallback.DAEMON_LOST, True)
    assert connections_of(mutual.daemon)[1] == sound
    with AdminClient(mutual.address, environ={}) as admin, pytest.raises(ClientError, match="set INDUCTORD_TLS_CA"):
        admin.status()


def test_tls_on_a_plain_port(start_daemon: Callable[..., DaemonProcess], mutual: SimpleNamespace) -> None:
    daemon = start_daemon(listen="localhost:0", insecure=True)
    reason, message = refused(tcp_address(daemon), secured(mutual.authority.ca, mutual.ours))
    assert reason is Fallback.UNAUTHENTICATED
    assert "no TLS" in message


def test_the_command_line_says_the_same(mutual: SimpleNamespace) -> None:
    for environ, said in (
        (secured(mutual.authority.ca), "wants a certificate"),
        (secured(mutual.stranger.ca, mutual.ours), "unable to get local issuer"),
    ):
        with AdminClient(mutual.address, environ=environ) as admin, pytest.raises(NotAdmitted, match=said):
            admin.status()


@pytest.mark.parametrize(
    ("name", "ids", "tenant"),
    [
        ("team.a", (), "team.a"),
        ("ignored", ("spiffe://example.org/ns/research/sa/train",), "spiffe:example.org:ns:research:sa:train"),
        ("a/b", (), None),
        (None, (), None),
        ("spiffe:example.org:ns:research:sa:train", (), None),
    ],
)
def test_a_certificate_names_its_tenant(
    mutual: SimpleNamespace, name: str | None, ids: tuple[str, ...], tenant: str | None
) -> None:
    env = secured(mutual.authority.ca, mutual.authority.issue(name, hosts=(), ids=ids))
    if tenant is None:
        before = nonzero(mutual.daemon, "inductord_auth_failures_total").get("no_tenant", 0)
        reason, message = refused(mutual.address, env)
        assert (reason, "names no tenant" in message) == (Fallback.UNAUTHENTICATED, True)
        assert nonzero(mutual.daemon, "inductord_auth_failures_total")["no_tenant"] == before + 1
        return
    assert ask(mutual.address, env, GRAPH, job=f"of {tenant}").artifact
    assert f"{tenant}/of {tenant}" in {job.job for job in mutual.daemon.status().jobs}


def test_certificates_and_authorities_change_under_a_running_stream(
    start_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    shown, ca = old.issue("daemon"), tmp_path / "clients.pem"
    ca.write_bytes(old.ca.read_bytes())
    daemon = start_daemon(listen="localhost:0", tls_cert=shown.cert, tls_key=shown.key, tls_client_ca=ca)
    address = tcp_address(daemon)
    before, after = secured(old.ca, old.issue("acme")), secured(new.ca, new.issue("acme"))
    assert refused(address, after)[0] is Fallback.UNAUTHENTICATED
    graph = script(["wait_for", str(tmp_path / "go")], ["size", 100_000])
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ask, address, before, graph)
        wait_until(lambda: bool(daemon.status().compiles), "it is asked for")
        shown.replace(new.issue("daemon"))
        replace(ca, new.ca.read_bytes())
        wait_until(lambda: admitted(address, after), "the new certificates are in force")
        assert refused(address, before)[0] is Fallback.UNAUTHENTICATED
        (tmp_path / "go").touch()
        # Its connection stands, and so does what it waits for.
        assert waiting.result(DEADLINE_S).served == pb.SERVED_LED
    assert ask(address, after, graph).served == pb.SERVED_HIT
    # A file that cannot be used changes nothing but the log and a count.
    replace(shown.key, b"half a k")
    wait_until(lambda: admitted(address, after) and reload_failures(daemon) > 0, "the bad file is noticed")
    assert ask(address, after, graph).served == pb.SERVED_HIT
    assert "What was read before stays in force" in daemon.log()
    # An expired certificate of the daemon is the clients' to refuse.
    shown.replace(new.issue("daemon", ended=True))
    wait_until(lambda: not admitted(address, after), "the expired certificate is shown")
    reason, message = refused(address, after)
    assert (reason, "certificate has expired" in message) == (Fallback.UNAUTHENTICATED, True)
    assert "PRIVATE KEY" not in daemon.log()


def admitted(address: str, environ: dict[str, str]) -> bool:
    with client(address, environ) as one:
        try:
            one.capabilities()
        except Unavailable:
            return False
    return True


def reload_failures(daemon: DaemonProcess) -> int:
    return int(value(samples(page(daemon)), "inductord_auth_reload_failures_total"))
