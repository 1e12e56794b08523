"""What a client shows over TCP, from its environment; and addresses that lead there."""

from pathlib import Path

import pytest

from inductord.compiler.address import AddressError, TcpAddress, parse_address
from inductord.compiler.channel import Remote
from inductord.compiler.security import Security, SecurityError, security_from

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("address", "where", "target"),
    [
        ("tcp://node7:7777", TcpAddress("node7", 7777), "dns:///node7:7777"),
        ("tcp://10.0.0.7:1", TcpAddress("10.0.0.7", 1), "ipv4:10.0.0.7:1"),
        ("tcp://[fd00::7]:65535", TcpAddress("fd00::7", 65535), "ipv6:[fd00::7]:65535"),
    ],
)
def test_addresses_of_ports(address: str, where: TcpAddress, target: str) -> None:
    assert parse_address(address) == where
    assert where.target == target


@pytest.mark.parametrize(
    "address",
    [
        "tcp://",
        "tcp://node7",
        "tcp://node7:",
        "tcp://:7777",
        "tcp://node7:0",
        "tcp://node7:65536",
        "tcp://node7:http",
        "tcp://node7:7777/x",
        "tcp://me@node7:7777",
        "tcp://fd00::7:7777",
        "tcp:node7:7777",
        "node7:7777",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(AddressError):
        parse_address(address)


def test_paths_are_addresses_too() -> None:
    assert parse_address("unix:/run/a.sock") == Path("/run/a.sock")
    assert Remote("unix:/run/a.sock", {}).local
    assert not Remote("tcp://node7:7777", {}).local


def test_without_variables_nothing_is_shown() -> None:
    assert security_from({}) == Security()


@pytest.mark.parametrize("name", ["INDUCTORD_TLS_CA", "INDUCTORD_TLS_SERVER_NAME"])
def test_any_tls_variable_turns_tls_on(name: str) -> None:
    assert security_from({name: "/x"}).tls


def test_a_certificate_needs_its_key() -> None:
    assert security_from({"INDUCTORD_TLS_CERT": "/c", "INDUCTORD_TLS_KEY": "/k"}).tls
    for name in ("INDUCTORD_TLS_CERT", "INDUCTORD_TLS_KEY"):
        with pytest.raises(SecurityError, match="belong together"):
            security_from({name: "/x"})


def test_a_token_comes_from_its_variable_or_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    tls = {"INDUCTORD_TLS_CA": "/ca"}
    assert security_from({**tls, "INDUCTORD_TOKEN": "secret"}).token == "secret"
    found = security_from({**tls, "INDUCTORD_TOKEN_FILE": str(file)})
    assert found.token == "secret"
    assert "secret" not in repr(found)
    with pytest.raises(SecurityError, match="both set"):
        security_from({**tls, "INDUCTORD_TOKEN": "x", "INDUCTORD_TOKEN_FILE": str(file)})


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff\xfe", "schlüssel".encode()])
def test_what_is_no_token_is_not_sent_and_not_said(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SecurityError) as caught:
        security_from({"INDUCTORD_TLS_CA": "/ca", "INDUCTORD_TOKEN_FILE": str(file)})
    assert "two words" not in str(caught.value)


def test_a_token_does_not_travel_in_clear_by_accident() -> None:
    with pytest.raises(SecurityError, match="in clear") as caught:
        security_from({"INDUCTORD_TOKEN": "secret"})
    assert "secret" not in str(caught.value)
    assert security_from({"INDUCTORD_TOKEN": "secret", "INDUCTORD_INSECURE": "1"}) == Security(token="secret")


def test_over_the_unix_socket_no_variable_matters() -> None:
    with Remote("unix:/run/a.sock", {"INDUCTORD_TOKEN": "secret", "INDUCTORD_TLS_CERT": "/x"}).channel() as channel:
        assert channel is not None


@pytest.mark.parametrize("name", ["INDUCTORD_TLS_CA", "INDUCTORD_TOKEN_FILE"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SecurityError, match="absent cannot be read"):
        Remote("tcp://127.0.0.1:1", {name: str(tmp_path / "absent")}).channel()
