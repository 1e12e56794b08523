"""A thin blocking client for the administration of a running daemon.

Every command of the CLI speaks through it. It translates gRPC's status codes into typed errors, in this one place,
whose messages say what to do. It makes no decisions, prints nothing, and never starts a daemon. Ranks have a client of
their own.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from inductord.compiler.address import AddressError, TcpAddress, parse_address
from inductord.compiler.channel import NotTrusted, Remote
from inductord.v1 import admin_pb2, admin_pb2_grpc

_CALL_TIMEOUT_S = 5.0
# Verification reads the whole store; a terabyte at disk speed fits into this.
_STORE_TIMEOUT_S = 3600.0
# A thousand ranks with all their graphs.
_TIMELINE_TIMEOUT_S = 60.0
_ARTIFACT_TIMEOUT_S = 300.0
_PROBE_TIMEOUT_S = 1.0
_PAGE = 1000
_CHUNK_BYTES = 1 << 20
_UCRED = struct.Struct("iii")
_CHANNEL_OPTIONS = (("grpc.max_receive_message_length", 64 << 20),)


class ClientError(Exception):
    """Base of what this client raises. ``str()`` of it is for people.

    ::

        ClientError
        ├── DaemonAbsent      nobody listens at the address
        ├── DaemonSilent      somebody listens and does not answer in time
        ├── DaemonDraining    the daemon is about to end and takes no more requests
        ├── NotAdmitted       the daemon and we do not accept each other, or the request is for its owner only
        ├── NotFound          there is no such entry or job
        ├── BadRequest        the daemon refused the arguments
        └── RequestFailed     everything else, with gRPC's own words
    """


class DaemonAbsent(ClientError):
    """Nobody listens at the address."""


class DaemonSilent(ClientError):
    """The daemon took the connection and did not answer in time."""


class DaemonDraining(ClientError):
    """The daemon listens, and refuses because it is about to end."""


class NotAdmitted(ClientError):
    """Certificate or token are not accepted, on one side or the other, or the request is for the daemon's owner only."""


class NotFound(ClientError):
    """There is no such entry or job."""


class BadRequest(ClientError):
    """The daemon refused the arguments."""


class RequestFailed(ClientError):
    """Any other error of the call."""


def why_unreachable(address: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Why a plain connect to the daemon fails, as a phrase for people, or ``None`` when it succeeds.

    gRPC reports all of these as one code, though what to do about them differs.

    Raises:
        AddressError: the address or what secures the connection cannot be used.
        NotTrusted: somebody answers, and one side does not accept the other's certificate.
    """
    remote = Remote(address, environ)
    try:
        remote.knock(_PROBE_TIMEOUT_S)
    except FileNotFoundError:
        return "there is no socket"
    except ConnectionRefusedError:
        if remote.local:
            return "its socket is a leftover, the daemon that made it is gone"
        return "nobody listens on that port"
    except PermissionError:
        return f"user {os.geteuid()} may not connect, the socket belongs to somebody else"
    except TimeoutError:
        return "it takes no more connections, the daemon hangs or is stopped" if remote.local else "nobody answers"
    except OSError as error:
        return f"connecting fails: {error.strerror or error}"
    return None


def listener_pid(address: str) -> int | None:
    """Pid of the process that listens at the socket, or ``None`` when nobody does, it is of another PID namespace, or it is
    behind TCP.

    The kernel says so, unlike a pid in a status message, which means nothing outside the daemon's container.

    Raises:
        AddressError: the address cannot be used.
    """
    where = parse_address(address)
    if isinstance(where, TcpAddress):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(str(where))
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        except OSError:
            return None  # `why_unreachable` tells the reason to those who want it.
    pid, _uid, _gid = _UCRED.unpack(credentials)
    return int(pid) or None


class AdminClient:
    """Administration of the daemon at ``address`` (``unix:/path`` or ``tcp://host:port``). Connects at the first call, with
    the certificates and the token that ``environ`` names (see ``compiler.security``).

    Every method raises ``ClientError`` or one of its kinds, and nothing else, for what the daemon or the network does.

    Raises:
        AddressError: when made for an address, certificates or a token that cannot be used.
    """

    def __init__(
        self, address: str, *, timeout: float = _CALL_TIMEOUT_S, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._environ = environ
        self._channel = Remote(address, environ).channel(_CHANNEL_OPTIONS)
        self._admin = admin_pb2_grpc.AdminServiceStub(self._channel)
        self._health = health_pb2_grpc.HealthStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def check_health(self, timeout: float = _PROBE_TIMEOUT_S) -> None:
        """Return when the daemon says that it serves.

        Raises:
            DaemonDraining: it answers that it does not serve.
        """
        with self._translated():
            answer = self._health.Check(health_pb2.HealthCheckRequest(), timeout=timeout)
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            raise DaemonDraining(_draining(self.address))

    def status(self) -> admin_pb2.Status:
        """What the daemon is doing now."""
        with self._translated():
            answer: admin_pb2.GetStatusResponse = self._admin.GetStatus(
                admin_pb2.GetStatusRequest(), timeout=self._timeout
            )
        return answer.status

    def watch(self, interval: float) -> Iterator[admin_pb2.Status]:
        """The status now and every ``interval`` seconds (0.1 to 60), until the daemon ends or the iterator is
        closed."""
        with self._translated():
            stream = self._admin.WatchStatus(admin_pb2.WatchStatusRequest(interval_seconds=interval))
            try:
                for answer in stream:
                    yield answer.status
            finally:
                stream.cancel()

    def job(self, job: str) -> admin_pb2.JobSummary:
        """Sums over the ranks of a job.

        Raises:
            NotFound: no rank of it was seen, or long ago.
        """
        with self._translated():
            answer: admin_pb2.GetJobResponse = self._admin.GetJob(
                admin_pb2.GetJobRequest(job=job), timeout=self._timeout
            )
        return answer.job

    def timeline(self, job: str = "") -> admin_pb2.Timeline:
        """When things happened in a job; in the one that was seen last when no name is given.

        Raises:
            NotFound: no rank of it was seen, or long ago.
        """
        whole = admin_pb2.Timeline()
        with self._translated():
            request = admin_pb2.GetTimelineRequest(job=job)
            for part in self._admin.GetTimeline(request, timeout=_TIMELINE_TIMEOUT_S):
                whole.MergeFrom(part.timeline)
        return whole

    def cuts(self, *, job: str = "", key: str = "") -> admin_pb2.GetCutsResponse:
        """How graphs were cut: of one job (the one that told last when it has no name), or those that ``key``, or 6 or more
        digits of its beginning, belongs to.

        Raises:
            NotFound: none is known, or it was long ago.
            BadRequest: it is no beginning of a key.
        """
        with self._translated():
            answer: admin_pb2.GetCutsResponse = self._admin.GetCuts(
                admin_pb2.GetCutsRequest(job=job, key=key), timeout=self._timeout
            )
        return answer

    def entries(self, limit: int | None = None) -> Iterator[admin_pb2.Entry]:
        """Entries of the store, most recently used first, at most ``limit``."""
        left = limit
        token = ""
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            request = admin_pb2.ListEntriesRequest(page_size=size, page_token=token)
            with self._translated():
                page: admin_pb2.ListEntriesResponse = self._admin.ListEntries(request, timeout=self._timeout)
            yield from page.entries
            token = page.next_page_token
            if not token:
                return
            if left is not None:
                left -= len(page.entries)

    def entry(self, key: str) -> admin_pb2.Entry:
        """One entry by its key or by at least 6 digits of its beginning.

        Raises:
            NotFound: there is none.
            BadRequest: the prefix fits several keys, or is no prefix of a key.
        """
        with self._translated():
            answer: admin_pb2.GetEntryResponse = self._admin.GetEntry(
                admin_pb2.GetEntryRequest(key=key), timeout=self._timeout
            )
        return answer.entry

    def verify(self) -> admin_pb2.VerifyStoreResponse:
        """Have every artifact read and its digest checked. Takes as long as reading the store takes."""
        with self._translated():
            answer: admin_pb2.VerifyStoreResponse = self._admin.VerifyStore(
                admin_pb2.VerifyStoreRequest(), timeout=_STORE_TIMEOUT_S
            )
        return answer

    def collect(self, max_bytes: int | None) -> admin_pb2.CollectGarbageResponse:
        """Evict until the store is at most ``max_bytes`` large; its own limit when ``None``."""
        request = admin_pb2.CollectGarbageRequest(max_bytes=max_bytes)
        with self._translated():
            answer: admin_pb2.CollectGarbageResponse = self._admin.CollectGarbage(request, timeout=_STORE_TIMEOUT_S)
        return answer

    def read_artifact(self, key: str) -> bytes:
        """One stored artifact, verified by the daemon.

        Raises:
            NotFound: it is not stored, or was damaged.
        """
        with self._translated():
            answers = self._admin.ReadArtifact(admin_pb2.ReadArtifactRequest(key=key), timeout=_ARTIFACT_TIMEOUT_S)
            return b"".join(answer.chunk for answer in answers)

    def put_artifact(self, key: str, sealed: bytes) -> admin_pb2.PutArtifactResponse:
        """Have a sealed artifact stored. The daemon verifies it with its own keys."""
        with self._translated():
            answer: admin_pb2.PutArtifactResponse = self._admin.PutArtifact(
                _put_requests(key, sealed), timeout=_ARTIFACT_TIMEOUT_S
            )
        return answer

    def shutdown(self, drain_seconds: float | None) -> None:
        """Ask the daemon to drain and end; returns when it has taken note. ``None``: its configured drain time."""
        with self._translated():
            self._admin.Shutdown(admin_pb2.ShutdownRequest(drain_seconds=drain_seconds), timeout=self._timeout)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise self._error(error) from error

    def _error(self, error: grpc.RpcError) -> ClientError:
        # What the blocking API raises is the call itself as well; its types do not say so.
        call = cast(grpc.Call, error)
        code, details = call.code(), call.details() or ""
        match code:
            case grpc.StatusCode.UNAVAILABLE:
                try:
                    why = why_unreachable(self.address, self._environ)
                except (NotTrusted, AddressError) as reason:
                    return NotAdmitted(f"The daemon at {self.address} cannot be used: {reason}.")
                if why is None:
                    hint = Remote(self.address, self._environ).hint
                    return DaemonDraining(_draining(self.address, details) + hint)
                return DaemonAbsent(f"No daemon answers at {self.address}: {why}.")
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return DaemonSilent(
                    f"The daemon at {self.address} took the connection and did not answer in time. It hangs or is "
                    "stopped; look at its log, and end it by its pid if it stays so."
                )
            case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
                return NotAdmitted(f"The daemon at {self.address} refused: {details}")
            case grpc.StatusCode.NOT_FOUND:
                return NotFound(details)
            case grpc.StatusCode.INVALID_ARGUMENT:
                return BadRequest(details)
            case grpc.StatusCode.UNIMPLEMENTED:
                return RequestFailed(
                    f"The daemon at {self.address} does not know this request: it is of another release. "
                    "Stop it with `inductord stop` and start this release's."
                )
        return RequestFailed(f"The daemon at {self.address} answered {code.name}: {details}")


def _put_requests(key: str, sealed: bytes) -> Iterator[admin_pb2.PutArtifactRequest]:
    yield admin_pb2.PutArtifactRequest(key=key, size=len(sealed), chunk=sealed[:_CHUNK_BYTES])
    for start in range(_CHUNK_BYTES, len(sealed), _CHUNK_BYTES):
        yield admin_pb2.PutArtifactRequest(chunk=sealed[start : start + _CHUNK_BYTES])


def _draining(address: str, details: str = "") -> str:
    said = f" It says: {details}." if details else ""
    return f"The daemon at {address} is about to end and takes no more requests.{said} Try again when it is gone."
