"""From a call to its caller: who it is, and whether the call is for it. Fails closed: what is not listed is the owner's.

No I/O of its own. What it sees of a call is where it came from, what TLS says of the peer, and the call's metadata. It
never logs these but for the first: the others may hold secrets.
"""

import contextvars
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from grpc_health.v1.health import SERVICE_NAME as HEALTH_SERVICE

from inductord.daemon.auth.refusals import AuthFailure
from inductord.daemon.auth.tokens import TokenFile
from inductord.daemon.errors import Denied, Unauthenticated
from inductord.daemon.tenancy import LOCAL, OWNER, Caller, is_tenant

_log = logging.getLogger("inductord.auth")

_TENANTS_MAY = frozenset(
    {
        "/inductord.v1.CompilerService/GetCapabilities",
        "/inductord.v1.CompilerService/Compile",
        "/inductord.v1.CompilerService/Lookup",
        "/inductord.v1.CompilerService/ReportRank",
        "/inductord.v1.TuningService/Tune",
        "/inductord.v1.CacheService/GetBlob",
        "/inductord.v1.CacheService/PutBlob",
        "/inductord.v1.AdminService/GetStatus",
        "/inductord.v1.AdminService/WatchStatus",
        "/inductord.v1.AdminService/GetJob",
        "/inductord.v1.AdminService/GetTimeline",
        "/inductord.v1.AdminService/GetCuts",
        "/inductord.v1.AdminService/ListEntries",
        "/inductord.v1.AdminService/GetEntry",
        # Unlike a check it lasts, so not everybody may hold one.
        f"/{HEALTH_SERVICE}/Watch",
    }
)
_HEALTH_CHECK = f"/{HEALTH_SERVICE}/Check"
_SPIFFE = "spiffe://"
_SAY_EVERY_S = 60.0

_caller: contextvars.ContextVar[Caller] = contextvars.ContextVar("inductord_caller")


def current_caller() -> Caller:
    """Who makes the call that is being served. LookupError outside of a call that the gate let in."""
    return _caller.get()


class Gate:
    """Lets calls in, or not.

    ``tokens``: every call over TCP needs one. ``certificates``: without tokens, the client's certificate names the tenant.
    With neither, everybody who can connect is taken for a client of the owner. ``called`` is told of every call, with what TLS
    says of its peer; ``failed`` counts refusals.
    """

    def __init__(
        self,
        *,
        tokens: TokenFile | None = None,
        certificates: bool = False,
        called: Callable[[str, Mapping[str, Iterable[bytes]]], None],
        failed: Callable[[AuthFailure], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._certificates = certificates
        self._called = called
        self._failed = failed
        self._clock = clock
        self._said: dict[AuthFailure, float] = {}

    def admit(
        self,
        method: str,
        peer: str,
        tls: Mapping[str, Iterable[bytes]],
        metadata: Iterable[tuple[str, str | bytes]],
    ) -> None:
        """Make the one who calls ``method`` (``/package.Service/Method``) the current caller.

        Raises:
            Unauthenticated: nobody knows who it is.
            Denied: it is not for that caller.
        """
        self._called(peer, tls)
        _caller.set(self._identify(method, peer, tls, metadata))

    def _identify(
        self,
        method: str,
        peer: str,
        tls: Mapping[str, Iterable[bytes]],
        metadata: Iterable[tuple[str, str | bytes]],
    ) -> Caller:
        if peer.startswith("unix:"):
            return LOCAL
        if method == _HEALTH_CHECK:
            # It says whether we serve and nothing else; what looks after the machine has no token.
            return Caller(OWNER, local=False)
        tenant = self._tenant(peer, tls, metadata)
        if method not in _TENANTS_MAY:
            self._refused(AuthFailure.PERMISSION, peer)
            raise Denied(f"{method} is for the daemon's owner, through its Unix socket on its machine.")
        return Caller(tenant, local=False)

    def _tenant(
        self, peer: str, tls: Mapping[str, Iterable[bytes]], metadata: Iterable[tuple[str, str | bytes]]
    ) -> str:
        if self._tokens is not None:
            token = _token(metadata)
            if token is None:
                self._refused(AuthFailure.NO_TOKEN, peer)
                raise Unauthenticated(
                    "this daemon wants a token. Ask whoever runs it for one, and set INDUCTORD_TOKEN_FILE or INDUCTORD_TOKEN."
                )
            tenant = self._tokens.tenant_of(token)
            if tenant is None:
                self._refused(AuthFailure.WRONG_TOKEN, peer)
                raise Unauthenticated(
                    "this daemon does not know the token: it was mistyped, withdrawn or is another's."
                )
            return tenant
        if self._certificates:
            tenant = tenant_of_certificate(tls)
            if tenant is None:
                self._refused(AuthFailure.NO_TENANT, peer)
                raise Unauthenticated(
                    "the client's certificate names no tenant: it needs one SPIFFE ID, or a common name of at "
                    "most 128 letters, digits and ._:-"
                )
            return tenant
        return OWNER

    def _refused(self, reason: AuthFailure, peer: str) -> None:
        self._failed(reason)
        now = self._clock()
        if now >= self._said.get(reason, now):
            self._said[reason] = now + _SAY_EVERY_S
            _log.warning("refused a call from %s: %s (said once a minute, counted always)", peer, reason)


def tenant_of_certificate(tls: Mapping[str, Iterable[bytes]]) -> str | None:
    """The tenant that a verified certificate names, from gRPC's account of it; None when it names none.

    A SPIFFE ID ``spiffe://domain/a/b`` is the tenant ``spiffe:domain:a:b``: IDs have no colons, so no two become one, and
    no common name becomes one of them. Without a SPIFFE ID it is the common name.
    """
    spiffe = list(tls.get("peer_spiffe_id", ()))
    if spiffe:
        name = "spiffe:" + spiffe[0].decode("ascii", "replace").removeprefix(_SPIFFE).replace("/", ":")
        return name if len(spiffe) == 1 and is_tenant(name) else None
    names = list(tls.get("x509_common_name", ()))
    if len(names) != 1:
        return None
    name = names[0].decode("utf-8", "replace")
    return name if is_tenant(name) and not name.startswith("spiffe:") else None


def _token(metadata: Iterable[tuple[str, str | bytes]]) -> str | None:
    """The bearer token; None when there is none, or more than one entry that may hold it."""
    found = [value for name, value in metadata if name == "authorization" and isinstance(value, str)]
    if len(found) != 1:
        return None
    scheme, _, token = found[0].partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
