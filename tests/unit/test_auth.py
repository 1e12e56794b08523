"""Who is who over TCP: tokens, certificates, the gate, and the settings that make a listener."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.certificates import Authority

from inductord.daemon.auth import tokens
from inductord.daemon.auth.certificates import server_credentials
from inductord.daemon.auth.connections import Connections
from inductord.daemon.auth.files import AuthError, Watched
from inductord.daemon.auth.gate import Gate, current_caller, tenant_of_certificate
from inductord.daemon.auth.listener import check
from inductord.daemon.auth.refusals import AuthFailure
from inductord.daemon.auth.tokens import TokenFile
from inductord.daemon.config import DaemonConfig
from inductord.daemon.errors import Denied, Unauthenticated
from inductord.daemon.tenancy import LOCAL, OWNER, Caller, is_tenant, scoped, short, split

pytestmark = pytest.mark.unit

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,20}", fullmatch=True)
KEYS = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
COMPILE = "/inductord.v1.CompilerService/Compile"
PEER = "ipv4:10.0.0.9:5555"
TOLD: dict[str, Callable[[], None]] = {"connecting": lambda: None, "failed": lambda: None}


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# Scopes


@settings(max_examples=40)
@given(st.lists(st.tuples(st.just(OWNER) | NAMES, KEYS), unique=True, max_size=4))
def test_no_two_tenants_keys_become_one(pairs: list[tuple[str, str]]) -> None:
    scopes = [scoped(tenant, key) for tenant, key in pairs]
    assert len(set(scopes)) == len(pairs)
    assert [split(each) for each in scopes] == pairs
    assert [split(short(each))[0] for each in scopes] == [tenant for tenant, _ in pairs]


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "-x", "ü", "a b", "a\n", "x" * 129])
def test_names_that_could_do_harm_are_no_tenants(name: str) -> None:
    assert not is_tenant(name)


# Tokens


def test_tokens_are_kept_by_digest_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = [tokens.new_token() for _ in range(3)]
    assert len(set(made)) == 3
    for tenant, token in zip(("acme", "acme", "beta"), made, strict=True):
        tokens.add(file, tenant, token)
    assert file.stat().st_mode & 0o777 == 0o600
    assert not any(token in file.read_text() for token in made)
    found = TokenFile(file, lambda: None)
    assert [found.tenant_of(token) for token in made] == ["acme", "acme", "beta"]
    assert found.tenant_of(made[0] + "x") is None
    assert found.tenant_of(tokens.digest(made[0])) is None


def test_a_line_is_added_after_one_that_has_no_end(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# ours")
    tokens.add(file, "acme", "t")
    assert tokens.parse(file.read_text()) == {tokens.digest("t"): "acme"}


@pytest.mark.parametrize(
    "line", ["acme", "acme ab", f"{'0' * 64} acme", f"a/b {'0' * 64}", f"acme {'A' * 64}", f"acme {'0' * 64} more"]
)
def test_a_bad_line_is_named_by_its_number_not_by_its_text(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 ") as caught:
        tokens.parse(f"# comment\n{line}\n")
    assert "0" * 64 not in str(caught.value)


def test_one_token_is_one_tenants() -> None:
    row = f"{'0' * 64}"
    assert tokens.parse(f"acme {row} # one\n\nacme {row}\n") == {row: "acme"}
    with pytest.raises(ValueError, match="line 2"):
        tokens.parse(f"acme {row}\nbeta {row}\n")


@given(st.text(max_size=200))
def test_any_file_is_read_or_refused(text: str) -> None:
    try:
        found = tokens.parse(text)
    except ValueError:
        return
    assert all(is_tenant(tenant) for tenant in found.values())
    assert len(found) <= len(text.splitlines())


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch()
    file.chmod(0o666)
    with pytest.raises(AuthError, match="chmod o-w"):
        TokenFile(file, lambda: None)
    with pytest.raises(AuthError, match="inductord token new"):
        TokenFile(tmp_path / "absent", lambda: None)


# Files that change


def test_a_value_follows_its_file_and_outlives_a_bad_one(tmp_path: Path) -> None:
    file, clock, failed = tmp_path / "file", Clock(), []

    def read() -> str:
        text = file.read_text()
        if "bad" in text:
            raise AuthError("bad.")
        return text

    file.write_text("one")
    watched = Watched([file], read, lambda: failed.append(1), clock)
    for written, seen, failures in (("two!", "two!", 0), ("bad..", "two!", 1), ("three...", "three...", 1)):
        file.write_text(written)
        clock.now += 1.0
        assert watched.current() == seen
        clock.now += 1.0
        assert watched.current() == seen
        assert len(failed) == failures
    file.write_text("four.....")
    assert watched.current() == "three..."  # not looked at again within the second


# Certificates


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, other = authority.issue("daemon"), authority.issue("other")
    server_credentials(pair.cert, pair.key, authority.ca, **TOLD)
    with pytest.raises(AuthError, match="do not belong together"):
        server_credentials(pair.cert, other.key, None, **TOLD)
    with pytest.raises(AuthError, match="No such file"):
        server_credentials(tmp_path / "absent", pair.key, None, **TOLD)
    with pytest.raises(AuthError, match="tls_client_ca"):
        server_credentials(pair.cert, pair.key, pair.key, **TOLD)


@pytest.mark.parametrize(
    ("tls", "tenant"),
    [
        ({"x509_common_name": [b"acme"]}, "acme"),
        ({"x509_common_name": [b"acme"], "peer_spiffe_id": [b"spiffe://a.b/c/d"]}, "spiffe:a.b:c:d"),
        ({"x509_common_name": [b"acme"], "peer_spiffe_id": [b"spiffe://a.b/c%2Fd"]}, None),
        ({"x509_common_name": [b"acme"], "peer_spiffe_id": [b"spiffe://a/b", b"spiffe://a/c"]}, None),
        ({"x509_common_name": [b"acme", b"beta"]}, None),
        ({"x509_common_name": [b"\xff"]}, None),
        ({"x509_common_name": [b"spiffe:a.b:c:d"]}, None),
        ({"x509_subject_alternative_name": [b"acme"]}, None),
        ({}, None),
    ],
)
def test_what_a_certificate_says(tls: Mapping[str, Iterable[bytes]], tenant: str | None) -> None:
    assert tenant_of_certificate(tls) == tenant


# The gate


class Door:
    """A gate that counts."""

    def __init__(self, tmp_path: Path, *, with_tokens: bool = False, certificates: bool = False) -> None:
        file = tmp_path / "tokens"
        self.token = tokens.new_token()
        tokens.add(file, "acme", self.token)
        self.failures: list[AuthFailure] = []
        self.clock = Clock()
        self.gate = Gate(
            tokens=TokenFile(file, lambda: None) if with_tokens else None,
            certificates=certificates,
            called=lambda peer, tls: None,
            failed=self.failures.append,
            clock=self.clock,
        )

    def caller(self, method: str = COMPILE, peer: str = PEER, token: str = "", name: str = "") -> Caller:
        metadata = [("user-agent", "x"), *([("authorization", f"Bearer {token}")] if token else [])]
        self.gate.admit(method, peer, {"x509_common_name": [name.encode()]} if name else {}, metadata)
        return current_caller()


def test_the_unix_socket_is_the_owners(tmp_path: Path) -> None:
    door = Door(tmp_path, with_tokens=True, certificates=True)
    for method in (COMPILE, "/inductord.v1.AdminService/Shutdown", "/anything/New"):
        assert door.caller(method, "unix:") is LOCAL


def test_a_token_names_the_tenant_whatever_the_certificate_says(tmp_path: Path) -> None:
    door = Door(tmp_path, with_tokens=True, certificates=True)
    assert door.caller(token=door.token, name="beta") == Caller("acme", local=False)
    with pytest.raises(Unauthenticated, match="INDUCTORD_TOKEN"):
        door.caller(name="beta")
    with pytest.raises(Unauthenticated, match="does not know"):
        door.caller(token="acme")
    assert door.failures == [AuthFailure.NO_TOKEN, AuthFailure.WRONG_TOKEN]


def test_without_tokens_the_certificate_names_it(tmp_path: Path) -> None:
    door = Door(tmp_path, certificates=True)
    assert door.caller(name="beta", token=door.token) == Caller("beta", local=False)
    with pytest.raises(Unauthenticated):
        door.caller(name="a/b")
    assert door.failures == [AuthFailure.NO_TENANT]


def test_what_is_not_listed_is_for_the_owner(tmp_path: Path) -> None:
    door = Door(tmp_path, certificates=True)
    for method in ("/inductord.v1.AdminService/Shutdown", "/inductord.v1.AdminService/New", "/grpc.reflection/Info"):
        with pytest.raises(Denied, match="owner"):
            door.caller(method, name="acme")
    assert door.failures == [AuthFailure.PERMISSION] * 3
    # Health says nothing that needs a name.
    assert door.caller("/grpc.health.v1.Health/Check") == Caller(OWNER, local=False)
    assert door.caller("/grpc.health.v1.Health/Watch", name="acme") == Caller("acme", local=False)
    with pytest.raises(Unauthenticated):
        door.caller("/grpc.health.v1.Health/Watch")


def test_refusals_are_counted_always_and_said_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    door = Door(tmp_path, with_tokens=True)
    for _ in range(3):
        for _ in range(50):
            with pytest.raises(Unauthenticated):
                door.caller(token="ind_secret")
        door.clock.now += 60
    assert len(door.failures) == 150
    assert len(caplog.records) == 3
    assert "ind_secret" not in caplog.text
    assert PEER in caplog.text


def test_a_connection_is_counted_at_its_first_call() -> None:
    sound: list[None] = []
    connections = Connections(lambda: sound.append(None), remembered=2)

    def counted(peer: str, transport: bytes = b"ssl") -> int:
        connections.called(peer, {"transport_security_type": [transport]})
        return len(sound)

    assert [counted(peer) for peer in ("ipv4:1.1.1.1:1", "ipv4:1.1.1.1:1", "ipv4:1.1.1.1:2")] == [1, 1, 2]
    assert [counted("ipv4:1.1.1.1:3", b"insecure"), counted("unix:", b"local")] == [2, 2]
    connections.called("unix:", {})
    # The one that has been silent for longest is forgotten for a new one.
    assert [counted("ipv4:1.1.1.1:1"), counted("ipv4:1.1.1.1:4"), counted("ipv4:1.1.1.1:1")] == [2, 3, 3]
    assert counted("ipv4:1.1.1.1:2") == 4


# Settings


def config(tmp_path: Path, *given: str) -> DaemonConfig:
    values: dict[str, object] = {name: str(tmp_path / name) for name in given if name != "insecure"}
    return DaemonConfig(listen="0.0.0.0:7777", insecure="insecure" in given, **values)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "an artifact is code"),
        (("tls_cert",), "belong together"),
        (("tls_key", "insecure"), "belong together"),
        (("tls_cert", "tls_key"), "tls_client_ca"),
        (("tokens",), "in clear"),
        (("tls_client_ca",), "needs TLS"),
        (("tls_client_ca", "tokens", "insecure"), "needs TLS"),
    ],
)
def test_settings_that_let_somebody_in_by_accident_are_refused(
    tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    with pytest.raises(AuthError, match=said):
        check(config(tmp_path, *given))


@pytest.mark.parametrize(
    "given",
    [
        ("insecure",),
        ("insecure", "tokens"),
        ("insecure", "tls_cert", "tls_key"),
        ("tls_cert", "tls_key", "tokens"),
        ("tls_cert", "tls_key", "tls_client_ca"),
        ("tls_cert", "tls_key", "tls_client_ca", "tokens"),
    ],
)
def test_settings_that_say_who_may_are_taken(tmp_path: Path, given: tuple[str, ...]) -> None:
    check(config(tmp_path, *given))


def test_only_those_who_may_read_a_token_can(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    before = os.umask(0)
    try:
        tokens.add(file, "acme", "t")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o077 == 0
