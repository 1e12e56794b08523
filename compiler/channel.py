"""A gRPC channel to the daemon, over its Unix socket or TCP. gRPC reports all that can be wrong with a connection as one code
and goes on trying, so who wants to know knocks: a plain connect, and with TLS a handshake, whose errors have types.
"""

import dataclasses
import os
import queue
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc

from inductord.compiler.address import TcpAddress, parse_address
from inductord.compiler.security import Security, SecurityError, security_from

_OPTIONS = (
    # Channels to one address would share connections: so their backoff after a refusal, and across a fork.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


HANDSHAKE_TIMEOUT_S = 5.0
"""Unlike a connect, which the kernel answers, a handshake needs the daemon's attention."""


class _Call(NamedTuple):
    """What gRPC wants to know of a call from an interceptor."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _Bearer(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[type-arg]  # generic in the stubs only
    grpc.UnaryStreamClientInterceptor,  # type: ignore[type-arg]
    grpc.StreamStreamClientInterceptor,  # type: ignore[type-arg]
):
    """Shows the token with every call. gRPC's own call credentials refuse connections in clear, which may be asked for."""

    def __init__(self, token: str) -> None:
        self._entry = ("authorization", f"Bearer {token}")

    def _intercept(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        call = _Call(
            details.method,
            details.timeout,
            [*(details.metadata or ()), self._entry],
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )
        return continuation(call, request)

    intercept_unary_unary = _intercept  # type: ignore[assignment]  # one for all kinds of calls
    intercept_unary_stream = _intercept  # type: ignore[assignment]
    intercept_stream_stream = _intercept  # type: ignore[assignment]


class NotTrusted(Exception):
    """Somebody listens, and one side does not accept the certificate of the other. The message says which and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Remote:
    """Where the daemon is and how to connect: from ``address`` and the environment, as they are now.

    Raises:
        AddressError: the address cannot be used.
        SecurityError: an AddressError about certificates or the token.
    """

    address: str
    environ: Mapping[str, str] = dataclasses.field(default_factory=lambda: os.environ, repr=False)

    @property
    def local(self) -> bool:
        """Whether it is a Unix socket."""
        return not isinstance(parse_address(self.address), TcpAddress)

    @property
    def checked(self) -> bool:
        """Whether both sides look at certificates, so that there is more to find out than whether somebody listens."""
        return not self.local and security_from(self.environ).ca is not None

    @property
    def hint(self) -> str:
        """What may be wrong when a connection ends though somebody listens: a plain client looks like noise to TLS."""
        plain = not self.local and not security_from(self.environ).tls
        return " If that port wants TLS, set INDUCTORD_TLS_CA." if plain else ""

    def knock(self, timeout: float) -> None:
        """Connect and disconnect.

        Raises:
            OSError: nobody listens; TimeoutError when nobody answers in ``timeout`` seconds.
            NotTrusted: the daemon is not who we look for, or does not take us.
            AddressError: see above.
        """
        where = parse_address(self.address)
        if not isinstance(where, TcpAddress):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(timeout)
                probe.connect(str(where))
            return
        security = security_from(self.environ)
        try:
            probe = socket.create_connection((where.host, where.port), timeout)
        except socket.gaierror as error:
            if error.errno == socket.EAI_AGAIN:
                raise TimeoutError(f"no answer about the name {where.host}") from error
            raise
        with probe:
            # Without an authority of our own gRPC has some that Python does not know.
            if security.ca is not None:
                probe.settimeout(HANDSHAKE_TIMEOUT_S)
                _shake_hands(probe, where, security)

    def channel(self, options: Sequence[tuple[str, Any]] = ()) -> grpc.Channel:
        """A channel, which connects at its first call. Every call carries the token.

        Raises:
            AddressError: see above.
        """
        where = parse_address(self.address)
        options = (*_OPTIONS, *options)
        if not isinstance(where, TcpAddress):
            return grpc.insecure_channel(self.address, options=options)
        security = security_from(self.environ)
        if not security.tls:
            channel = grpc.insecure_channel(where.target, options=options)
        else:
            if security.server_name:
                options = (*options, ("grpc.ssl_target_name_override", security.server_name))
            channel = grpc.secure_channel(where.target, _credentials(security), options=options)
        return grpc.intercept_channel(channel, _Bearer(security.token)) if security.token else channel


def connects(channel: grpc.Channel, timeout: float) -> bool:
    """Connect. Whether the first try succeeded within ``timeout`` seconds."""
    ends: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def heard(state: grpc.ChannelConnectivity) -> None:
        if state in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
            ends.put(state is grpc.ChannelConnectivity.READY)

    channel.subscribe(heard, try_to_connect=True)
    try:
        return ends.get(timeout=timeout)
    except queue.Empty:
        return False
    finally:
        channel.unsubscribe(heard)


def _shake_hands(probe: socket.socket, where: TcpAddress, security: Security) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(security.ca)
        if security.cert:
            context.load_cert_chain(security.cert, security.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise SecurityError(f"the certificates that INDUCTORD_TLS_* name cannot be used: {error}.") from error
    try:
        with context.wrap_socket(probe, server_hostname=security.server_name or where.host) as shaken:
            # In TLS 1.3 a server looks at our certificate after the handshake. A gRPC server that takes us speaks first.
            accepted = bool(shaken.recv(1))
    except ssl.SSLCertVerificationError as error:
        raise NotTrusted(f"the daemon's certificate is not accepted: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise NotTrusted(f"no TLS with what listens there: {error.reason or error}") from error
    except ConnectionError:
        accepted = False
    if not accepted:
        if security.cert:
            shown = "does not take our certificate, and its log says why"
        else:
            shown = "wants a certificate (INDUCTORD_TLS_CERT), or no TLS"
        raise NotTrusted(f"the daemon closed the connection: it {shown}")


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to type its password")


def _credentials(security: Security) -> grpc.ChannelCredentials:
    try:
        ca, key, cert = (path.read_bytes() if path else None for path in (security.ca, security.key, security.cert))
    except OSError as error:
        raise SecurityError(f"{error.filename} cannot be read: {error.strerror}.") from error
    return grpc.ssl_channel_credentials(ca, key, cert)
