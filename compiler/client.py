"""The rank's connection to the daemon: one graph at a time over one stream, with bounded waits.

Made when the first graph comes and again after a fork; silence, loss and refusal become ``Unavailable`` with the reason.
"""

import dataclasses
import hashlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import grpc

from inductord.compiler.address import AddressError
from inductord.compiler.channel import HANDSHAKE_TIMEOUT_S, NotTrusted, Remote, connects
from inductord.compiler.otel import HEADER
from inductord.compiler.reasons import Fallback
from inductord.compiler.security import SecurityError
from inductord.compiler.unavailable import Unavailable, as_unavailable
from inductord.compiler.versions import PROTOCOL, this_version
from inductord.v1 import compiler_pb2 as pb
from inductord.v1.compiler_pb2_grpc import CompilerServiceStub

log = logging.getLogger("inductord")

_CONNECT_TIMEOUT_S = 1.0
_CAPABILITIES_TIMEOUT_S = 10.0
_REPORT_TIMEOUT_S = 1.0
_SILENT_HEARTBEATS = 5
_REATTACH_S = 3.0
_REATTACH_STEP_S = 0.1
_MAX_MESSAGE = 16 * 1024 * 1024
_CLOSED = "another thread found the connection lost and closed it"


class CompileFailed(Exception):
    """The pool could not compile this graph."""

    def __init__(self, failure: pb.CompileFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """An artifact, its digest checked. ``compile_seconds``: what it cost the worker."""

    artifact: bytes
    served: "pb.Served"
    compile_seconds: float


class Client:
    """One connection, of one process. Calls block. ``environ``: certificates and token, see ``security``."""

    def __init__(self, address: str, environ: Mapping[str, str] = os.environ) -> None:
        self._remote = Remote(address, environ)
        self._pid = os.getpid()
        self._connecting = threading.RLock()
        self._channel: grpc.Channel | None = None
        self._capabilities: pb.GetCapabilitiesResponse | None = None

    def capabilities(self) -> pb.GetCapabilitiesResponse:
        """What the daemon is and allows. Connects if need be.

        Raises:
            Unavailable: nobody answers, or in another version.
        """
        if self._pid != os.getpid():
            # Forked: a thread of the parent may have held the lock, and the connection is the parent's.
            self._connecting, self._channel, self._capabilities = threading.RLock(), None, None
            self._pid = os.getpid()
        with self._connecting:
            if self._capabilities is None:
                self._capabilities = self._connect()
            return self._capabilities

    def _connect(self) -> pb.GetCapabilitiesResponse:
        channel = self._channel = _connected(self._remote)
        try:
            answer: pb.GetCapabilitiesResponse = CompilerServiceStub(channel).GetCapabilities(
                pb.GetCapabilitiesRequest(client=this_version()), timeout=_CAPABILITIES_TIMEOUT_S
            )
        except grpc.RpcError as error:
            self.close()
            lost = as_unavailable(error)
            hint = self._remote.hint if lost.reason is Fallback.DAEMON_LOST else ""
            raise Unavailable(lost.reason, f"{lost}{hint}") from error
        if answer.daemon.protocol != PROTOCOL or answer.daemon.key_format != this_version().key_format:
            self.close()
            raise Unavailable(
                Fallback.VERSION_MISMATCH,
                f"the daemon is inductord {answer.daemon.release} (protocol {answer.daemon.protocol}, keys "
                f"{answer.daemon.key_format}), this rank {this_version().release} (protocol {PROTOCOL}, keys "
                f"{this_version().key_format}): install the same release on both sides and restart the daemon",
            )
        return answer

    def channel(self) -> grpc.Channel:
        """The connection, for another service of the same daemon. Connects if need be.

        Raises:
            Unavailable: nobody answers, or in another version.
        """
        self.capabilities()
        if self._channel is None:
            raise Unavailable(Fallback.DAEMON_LOST, _CLOSED)
        return self._channel

    def close(self) -> None:
        """Drop the connection. The next call makes a new one."""
        if self._channel is not None and self._pid == os.getpid():
            self._channel.close()
        self._channel = None
        self._capabilities = None

    def compile(
        self,
        request: pb.OpenCompile,
        serialize: Callable[[], bytes],
        progress: Callable[[pb.Progress], None],
        max_wait: float,
        traceparent: str = "",
        compile_here: Callable[[], bytes] | None = None,
    ) -> Received:
        """The artifact of one graph.

        A lost stream is opened once more when a daemon answers again soon: it joins what is being compiled.

        Args:
            request: what to ask for.
            serialize: gives the graph's bytes; called in this thread, when the daemon asks for them.
            progress: told of each change and heartbeat.
            max_wait: seconds after which to give up.
            traceparent: W3C trace context of the request, if it is traced.
            compile_here: gives an artifact, for a graph that is measured while it is compiled; called as ``serialize``, and in
                its place unless a worker can measure.

        Raises:
            Unavailable: the daemon cannot serve it.
            CompileFailed: the pool could not compile it.
            Whatever ``serialize`` or ``compile_here`` raises.
        """
        deadline = time.monotonic() + max_wait
        channel: grpc.Channel | None = None
        try:
            channel = self.channel()
            return self._attempt(request, serialize, progress, deadline, traceparent, compile_here)
        except Unavailable as lost:
            if lost.reason is not Fallback.DAEMON_LOST or not self._reconnect(channel):
                raise
            log.info("inductord: the daemon was lost and answers again; asking once more")
            return self._attempt(request, serialize, progress, deadline, traceparent, compile_here)

    def _reconnect(self, lost: grpc.Channel | None) -> bool:
        with self._connecting:
            if self._channel is lost:  # else another thread has a new one already
                self.close()
        end = time.monotonic() + _REATTACH_S
        while time.monotonic() < end:
            try:
                self.capabilities()
            except Unavailable:
                time.sleep(_REATTACH_STEP_S)
            else:
                return True
        return False

    def _attempt(
        self,
        request: pb.OpenCompile,
        serialize: Callable[[], bytes],
        progress: Callable[[pb.Progress], None],
        deadline: float,
        traceparent: str,
        compile_here: Callable[[], bytes] | None,
    ) -> Received:
        limits = self.capabilities()
        with self._open(_SILENT_HEARTBEATS * limits.heartbeat_seconds, deadline, traceparent) as stream:
            # Files of another machine, or of another user's daemon, are none of ours.
            request.reads_files = self._remote.local
            stream.send(pb.CompileRequest(open=request))
            while True:
                response = stream.receive()
                kind = response.WhichOneof("message")
                if kind == "send_graph":
                    if compile_here is None or response.send_graph.worker_measures:
                        self._send_graph(stream, serialize, limits)
                    else:
                        self._send_graph(stream, compile_here, limits, compiles_here=True)
                elif kind == "progress":
                    progress(response.progress)
                elif kind == "artifact":
                    offered = _read_file(response.artifact) if self._remote.local else None
                    received = offered or _receive_artifact(stream, response.artifact)
                    if received is not None:
                        stream.answered()
                        return received
                    stream.send(pb.CompileRequest(send_artifact=pb.SendArtifact()))
                elif kind == "failure":
                    stream.answered()
                    raise CompileFailed(response.failure)
                # A message that this release does not know comes from a newer daemon and may be skipped.

    def _open(self, silence: float, deadline: float, traceparent: str) -> "_Stream":
        channel = self._channel
        if channel is None:
            raise Unavailable(Fallback.DAEMON_LOST, _CLOSED)
        try:
            return _Stream(CompilerServiceStub(channel), silence, deadline, traceparent)
        except ValueError as error:  # gRPC's word for a channel that was closed
            raise Unavailable(Fallback.DAEMON_LOST, _CLOSED) from error

    def _send_graph(
        self,
        stream: "_Stream",
        give: Callable[[], bytes],
        limits: pb.GetCapabilitiesResponse,
        compiles_here: bool = False,
    ) -> None:
        largest = limits.max_artifact_bytes if compiles_here else limits.max_graph_bytes
        too_large = Fallback.ARTIFACT_TOO_LARGE if compiles_here else Fallback.GRAPH_TOO_LARGE
        start = time.monotonic()
        try:
            if compiles_here:
                stream.send(pb.CompileRequest(compiles_here=pb.CompilesHere()))
            graph = give()
            if len(graph) > largest:
                raise Unavailable(too_large, f"{len(graph)} bytes, the daemon takes {largest}")
        except Exception as error:
            # Whoever waits for this graph should not wait for our silence.
            stream.send(pb.CompileRequest(refused=pb.GraphRefused(message=str(error)[:1000])))
            raise
        header = pb.BlobHeader(size=len(graph), sha256=hashlib.sha256(graph).digest())
        if compiles_here:
            seconds = time.monotonic() - start
            stream.send(pb.CompileRequest(compiled=pb.Compiled(blob=header, compile_seconds=seconds)))
        else:
            stream.send(pb.CompileRequest(graph=header))
        for start in range(0, len(graph), limits.chunk_bytes):
            stream.send(pb.CompileRequest(chunk=graph[start : start + limits.chunk_bytes]))

    def report(self, request: pb.ReportRankRequest) -> pb.ReportRankResponse | None:
        """Tell the daemon what this rank did so far and when. None when there is no connection.

        Raises:
            Unavailable: it was not taken.
        """
        channel = self._channel
        if channel is None or self._pid != os.getpid():
            return None
        try:
            stub = CompilerServiceStub(channel)
            answer: pb.ReportRankResponse = stub.ReportRank(request, timeout=_REPORT_TIMEOUT_S)
            return answer
        except ValueError as error:
            raise Unavailable(Fallback.DAEMON_LOST, _CLOSED) from error
        except grpc.RpcError as error:
            raise as_unavailable(error) from error


def _connected(remote: Remote) -> grpc.Channel:
    """A channel to a daemon that answers, or at once the reason why there is none: gRPC itself would go on trying."""
    try:
        if remote.checked:
            channel = _channel(remote)
            # A knock would be a second handshake, of which the daemon hears no more: one that failed, as it counts them.
            if connects(channel, HANDSHAKE_TIMEOUT_S):
                return channel
            channel.close()
        remote.knock(_CONNECT_TIMEOUT_S)
        return _channel(remote)
    except (SecurityError, NotTrusted) as error:
        raise Unavailable(Fallback.UNAUTHENTICATED, f"{remote.address}: {error}") from error
    except AddressError as error:
        raise Unavailable(Fallback.DAEMON_ABSENT, str(error)) from error
    except TimeoutError as error:
        raise Unavailable(Fallback.DAEMON_SILENT, f"connecting to {remote.address} takes too long ({error})") from error
    except OSError as error:
        raise Unavailable(
            Fallback.DAEMON_ABSENT, f"no daemon answers at {remote.address} ({error}); start one with `inductord serve`"
        ) from error


def _channel(remote: Remote) -> grpc.Channel:
    return remote.channel([("grpc.max_receive_message_length", _MAX_MESSAGE)])


def _read_file(header: pb.Artifact) -> Received | None:
    """The artifact from the file that the daemon offers; None when it offers none or the file is no use here, as in a
    container that does not see the daemon's store."""
    if not header.path:
        return None
    try:
        # Were it no plain file, opening it must not wait.
        with open(os.open(header.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            artifact = file.read(header.blob.size + 1)
    except OSError as error:
        log.debug("inductord: the offered file is no use here: %s", error)
        return None
    if artifact is None or hashlib.sha256(artifact).digest() != header.blob.sha256:
        return None
    return Received(artifact, header.served, header.compile_seconds)


def _receive_artifact(stream: "_Stream", header: pb.Artifact) -> Received | None:
    """The artifact from its chunks; None when it was offered as a file and has none."""
    if header.path:
        return None
    parts: list[bytes] = []
    size = 0
    while size < header.blob.size:
        chunk = stream.receive().chunk
        if not chunk:
            raise Unavailable(Fallback.ARTIFACT_CORRUPT, f"the artifact ended after {size} of {header.blob.size} bytes")
        parts.append(chunk)
        size += len(chunk)
    artifact = b"".join(parts)
    if size != header.blob.size or hashlib.sha256(artifact).digest() != header.blob.sha256:
        raise Unavailable(Fallback.ARTIFACT_CORRUPT, "the artifact does not have the digest that was announced")
    return Received(artifact, header.served, header.compile_seconds)


class _Stream:
    """One Compile stream. Responses are read by a thread of their own, so that waiting for them can end."""

    def __init__(self, stub: CompilerServiceStub, silence: float, deadline: float, traceparent: str) -> None:
        self._silence = silence
        self._deadline = deadline
        self._outgoing: queue.SimpleQueue[pb.CompileRequest | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[pb.CompileResponse | grpc.RpcError | None] = queue.SimpleQueue()
        self._answered = False
        metadata = ((HEADER, traceparent),) if traceparent else ()
        self._call = stub.Compile(self._requests(), metadata=metadata)
        threading.Thread(target=self._read, name="inductord-read", daemon=True).start()

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self._outgoing.put(None)
        if not self._answered:
            self._call.cancel()

    def _requests(self) -> Iterator[pb.CompileRequest]:
        while (message := self._outgoing.get()) is not None:
            yield message

    def _read(self) -> None:
        try:
            for response in self._call:
                self._incoming.put(response)
            self._incoming.put(None)
        except grpc.RpcError as error:
            self._incoming.put(error)

    def answered(self) -> None:
        """All that was asked for is here. The daemon ends the stream; cancelled, it would count as one that gave up."""
        self._answered = True

    def send(self, message: pb.CompileRequest) -> None:
        self._outgoing.put(message)

    def receive(self) -> pb.CompileResponse:
        """The next response.

        Raises:
            Unavailable: the stream broke, ended, fell silent, or the wait is over.
        """
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unavailable(Fallback.WAIT_EXCEEDED, "it took longer than INDUCTORD_MAX_WAIT")
        try:
            message = self._incoming.get(timeout=min(self._silence, left))
        except queue.Empty:
            if self._silence < left:
                raise Unavailable(
                    Fallback.DAEMON_SILENT, f"the daemon gave no sign of life for {self._silence:.0f} s"
                ) from None
            raise Unavailable(Fallback.WAIT_EXCEEDED, "it took longer than INDUCTORD_MAX_WAIT") from None
        if isinstance(message, grpc.RpcError):
            raise as_unavailable(message) from message
        if message is None:
            raise Unavailable(Fallback.DAEMON_ERROR, "the daemon ended the stream without an answer")
        return message
