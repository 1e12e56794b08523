"""The daemon's certificate, and the authority whose clients it takes. Read anew for new connections when files change."""

import ssl
from collections.abc import Callable
from pathlib import Path

import grpc

from inductord.daemon.auth.files import AuthError, Watched


def server_credentials(
    cert: Path, key: Path, client_ca: Path | None, *, connecting: Callable[[], None], failed: Callable[[], None]
) -> grpc.ServerCredentials:
    """Credentials that follow the files. With ``client_ca`` a client must show a certificate of that authority.

    Connections that stand keep the certificates they began with. ``connecting`` is told of each connection before its
    handshake, in a thread of gRPC's, and ``failed`` of changed files that cannot be used.

    Raises:
        AuthError: the files cannot be used.
    """
    paths = [path for path in (cert, key, client_ca) if path is not None]
    watched = Watched(paths, lambda: _read(cert, key, client_ca), failed)
    given = watched.current()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        # gRPC asks before each handshake, in a thread of its own; None means that nothing has changed.
        nonlocal given
        connecting()
        current = watched.current()
        if current is given:
            return None
        given = current
        return current

    return grpc.dynamic_ssl_server_credentials(
        given,
        fetch,  # type: ignore[arg-type]  # the stubs do not know that it may give None
        require_client_authentication=client_ca is not None,
    )


def _read(cert: Path, key: Path, client_ca: Path | None) -> grpc.ServerCertificateConfiguration:
    # gRPC says what is wrong with certificates only when a client comes; Python's TLS says it now.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise AuthError(f"tls_cert {cert} and tls_key {key} cannot be used: {_words(error)}.") from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise AuthError(f"tls_client_ca {client_ca} cannot be used: {_words(error)}.") from error
    try:
        pair = (key.read_bytes(), cert.read_bytes())
        authority = client_ca.read_bytes() if client_ca else None
    except OSError as error:
        raise AuthError(f"{error.filename} cannot be read: {error.strerror}.") from error
    return grpc.ssl_server_certificate_configuration([pair], authority)


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to type its password")


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return "key and certificate do not belong together" if reason == "KEY_VALUES_MISMATCH" else reason
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
