"""The TCP listener, from the settings: whether it may be, what it shows of itself, whom it lets in."""

import logging
from collections.abc import Callable

import grpc
import grpc.aio

from inductord.daemon.auth.certificates import server_credentials
from inductord.daemon.auth.connections import Connections
from inductord.daemon.auth.files import AuthError
from inductord.daemon.auth.gate import Gate
from inductord.daemon.auth.refusals import AuthFailure
from inductord.daemon.auth.tokens import TokenFile
from inductord.daemon.config import DaemonConfig

_log = logging.getLogger("inductord.auth")


def check(config: DaemonConfig) -> None:
    """Whether the settings make a listener that nobody gets through by accident.

    Raises:
        AuthError: they do not; the message says what to set.
    """
    if bool(config.tls_cert) != bool(config.tls_key):
        raise AuthError("tls_cert and tls_key belong together: set both or neither.")
    if config.tls_client_ca and not config.tls_cert:
        raise AuthError("tls_client_ca asks for client certificates, which needs TLS: set tls_cert and tls_key too.")
    if config.insecure:
        return
    if not (config.tls_client_ca or config.tokens):
        raise AuthError(
            f"a listener on {config.listen} would let anybody run code here: an artifact is code. Set tls_cert, tls_key and "
            "either tls_client_ca (client certificates) or tokens. With --insecure it listens all the same."
        )
    if not config.tls_cert:
        raise AuthError(
            f"tokens would travel to {config.listen} in clear, and whoever sees one can use it. Set tls_cert and tls_key. "
            "With --insecure it listens all the same."
        )


class Listener:
    """What listens besides the Unix socket, if anything does.

    Raises:
        AuthError: the settings or their files cannot be used.
    """

    def __init__(
        self,
        config: DaemonConfig,
        *,
        connecting: Callable[[], None],
        connected: Callable[[], None],
        failed: Callable[[AuthFailure], None],
        reload_failed: Callable[[], None],
    ) -> None:
        self._listen = config.listen
        self._credentials: grpc.ServerCredentials | None = None
        connections = Connections(connected)
        if not config.listen:
            # Variables such as INDUCTORD_TLS_CERT are a rank's too, so without a listener they mean nothing here.
            self.gate = Gate(called=connections.called, failed=failed)
            return
        check(config)
        if config.tls_cert and config.tls_key:
            self._credentials = server_credentials(
                config.tls_cert, config.tls_key, config.tls_client_ca, connecting=connecting, failed=reload_failed
            )
        tokens = TokenFile(config.tokens, reload_failed) if config.tokens else None
        self.gate = Gate(
            tokens=tokens,
            certificates=config.tls_client_ca is not None,
            called=connections.called,
            failed=failed,
        )
        if config.insecure and not (self._credentials and (tokens or config.tls_client_ca)):
            _log.warning("insecure: who reaches %s can run code as this user, or see what others send", config.listen)

    def bind(self, server: grpc.aio.Server) -> str:
        """Bind the port. Returns host:port as it is, or nothing when nothing is asked for.

        Raises:
            AuthError: the address cannot be had.
        """
        if not self._listen:
            return ""
        try:
            if self._credentials is None:
                port = server.add_insecure_port(self._listen)
            else:
                port = server.add_secure_port(self._listen, self._credentials)
        except RuntimeError as error:
            raise AuthError(f"cannot listen on {self._listen}: {error}. Choose another address or port.") from error
        return f"{self._listen.rpartition(':')[0]}:{port}"
