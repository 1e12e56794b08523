"""One graph through the daemon, or, whatever goes wrong on the way, compiled here with the reason counted.

This is where training is kept from getting worse: every stage that may fail is named, and its failure ends in the compile
that would have happened without inductord.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Generator
from typing import Any

from inductord.compiler import graph_key, payload
from inductord.compiler.adapter import accounting, bypass, compiling, loading, placement, wire
from inductord.compiler.adapter.placement import Placement
from inductord.compiler.adapter.seam import GraphCall, InProcess
from inductord.compiler.client import Client, CompileFailed, Received
from inductord.compiler.cut_log import note_key
from inductord.compiler.errand import Errand, Give
from inductord.compiler.progress import ProgressLine
from inductord.compiler.reasons import Fallback
from inductord.compiler.recorder import Recorder
from inductord.compiler.reporter import Reporter
from inductord.compiler.settings import RankSettings
from inductord.compiler.telemetry import Telemetry
from inductord.compiler.tickets import Begun, FallBack, Sent, Ticket, only_begin, ticket_of
from inductord.compiler.timeline import SpanRecorder
from inductord.compiler.unavailable import Unavailable
from inductord.compiler.versions import this_version
from inductord.v1.compiler_pb2 import FailureKind, GraphKind, OpenCompile, Progress, StageKind

log = logging.getLogger("inductord")

_AVOID_SILENT_S = 60.0
"""After silence the daemon is left alone this long: waiting for it once is enough."""

_FAILURE_REASONS = {
    FailureKind.FAILURE_KIND_COMPILE_ERROR: Fallback.COMPILE_FAILED,
    FailureKind.FAILURE_KIND_UNLOADABLE: Fallback.WORKER_CANNOT_LOAD,
    FailureKind.FAILURE_KIND_KEY_MISMATCH: Fallback.KEY_MISMATCH,
    FailureKind.FAILURE_KIND_TIMEOUT: Fallback.COMPILE_TIMEOUT,
    FailureKind.FAILURE_KIND_WORKER_DIED: Fallback.WORKER_DIED,
    FailureKind.FAILURE_KIND_OUT_OF_MEMORY: Fallback.WORKER_OUT_OF_MEMORY,
    FailureKind.FAILURE_KIND_TOO_LARGE: Fallback.ARTIFACT_TOO_LARGE,
    FailureKind.FAILURE_KIND_POOL_UNAVAILABLE: Fallback.POOL_UNAVAILABLE,
}
_KINDS = {
    GraphKind.GRAPH_KIND_FORWARD: "forward graph",
    GraphKind.GRAPH_KIND_BACKWARD: "backward graph",
    GraphKind.GRAPH_KIND_INFERENCE: "inference graph",
}


class Offload:
    """Decides about each graph of this process and keeps count. ``came`` is told of each that the daemon has, how it was asked
    for, and where it runs."""

    def __init__(
        self,
        settings: RankSettings,
        client: Client,
        telemetry: Telemetry,
        reporter: Reporter,
        came: Callable[[Any, OpenCompile, Placement], None],
    ) -> None:
        self._came = came
        self._settings = settings
        self._client = client
        self._telemetry = telemetry
        self._recorder = Recorder(settings.record_dir)
        self._reporter = reporter
        self._avoid_until = 0.0

    def __call__(self, call: GraphCall, in_process: InProcess) -> Any:
        """The compiled graph, from the daemon or compiled here; raises what the local compile raises.

        Raises:
            Begun: inside ``tickets.beginning``.
        """
        label = f"{_KINDS[call.kind]} of {call.nodes} nodes"
        ticket = ticket_of(call.gm) or self._begin(call, in_process, label, ahead=only_begin())
        if only_begin():
            raise Begun(ticket)
        try:
            with ticket.record:
                compiled = self._compiled(ticket, call, in_process, label)
            accounting.time_first_launch(compiled, self._launched)
            return compiled
        finally:
            self._reporter.now()
            self._reporter.soon()

    def _compiled(self, ticket: Ticket, call: GraphCall, in_process: InProcess, label: str) -> Any:
        try:
            return self._fetch(ticket, call, label)
        except FallBack as fallback:
            ticket.span.fell_back(fallback.reason)
            self._telemetry.fell_back(fallback.reason, str(fallback), label)
        return self._compile_here(in_process, ticket.span)

    def _launched(self, seconds: float) -> None:
        self._telemetry.launched(seconds)
        self._reporter.soon()

    def frame_traced(self, kind: StageKind, compile_id: str, start_unix: float, seconds: float) -> None:
        """PyTorch is done with a frame, its graphs included; see ``Timeline.traced``."""
        self._telemetry.timeline.traced(kind, compile_id, start_unix, seconds)
        if time.monotonic() >= self._avoid_until:
            self._reporter.now()

    def _compile_here(self, in_process: InProcess, recorder: SpanRecorder) -> Any:
        try:
            with recorder.stage(StageKind.STAGE_KIND_LOCAL_COMPILE) as watch:
                return in_process()
        finally:
            self._telemetry.compiled_here(watch.seconds)

    def _begin(self, call: GraphCall, in_process: InProcess, label: str, *, ahead: bool) -> Ticket:
        """Ask for a graph. ``ahead``: this thread has other work until it is fetched."""
        record = contextlib.ExitStack()
        recorder = record.enter_context(self._telemetry.timeline.graph(call.kind, call.nodes))
        try:
            return Ticket(call.gm, self._ask(call, in_process, label, recorder, ahead), recorder, record)
        except FallBack as fallback:
            # Not the exception that was raised: kept, its traceback would keep the frames of all callers.
            return Ticket(call.gm, FallBack(fallback.reason, str(fallback)), recorder, record)
        except BaseException:
            record.close()
            raise

    def _ask(self, call: GraphCall, in_process: InProcess, label: str, recorder: SpanRecorder, ahead: bool) -> Sent:
        self._check_wanted(call)
        identified = self._identify(call, recorder)
        key = identified.key
        recorder.identified(key.digest)
        note_key(key.digest)
        log.debug("inductord: %s is %s", label, key.digest)
        request = OpenCompile(
            client=this_version(),
            key=key.digest,
            toolchain=identified.toolchain,
            kind=call.kind,
            requester=self._telemetry.requester(),
            nodes=call.nodes,
            key_parts=key.parts,
        )
        made_here: list[Any] = []
        measures = placement.needs_device(call, identified.placement)
        request.needs_device = measures and placement.fits_any_device(call, identified.placement)

        # Sent perhaps and recorded perhaps: made once.
        @functools.cache
        def give(compiled: bool) -> bytes:
            if compiled:
                return self._compile_for_all(call, in_process, identified, recorder, made_here)
            return self._serialize(call, identified, recorder, measures)

        max_wait = self._settings.max_wait

        def talk(give: Give, progress: Callable[[Progress], None]) -> Received:
            compile_here = functools.partial(give, True) if measures else None
            return self._client.compile(
                request,
                functools.partial(give, False),
                progress,
                max_wait,
                recorder.traceparent,
                compile_here,
            )

        errand = Errand(talk, patience=max_wait)
        if ahead:
            errand.send_off(give)
        return Sent(request, give, errand, identified.placement, made_here)

    def _fetch(self, ticket: Ticket, call: GraphCall, label: str) -> Any:
        if isinstance(ticket.sent, FallBack):
            raise FallBack(ticket.sent.reason, str(ticket.sent))
        sent, recorder, key = ticket.sent, ticket.span, ticket.sent.request.key
        with recorder.stage(StageKind.STAGE_KIND_WAIT) as wait:
            try:
                with self._waiting(f"{label} ({key[:12]})") as line:
                    received = sent.errand.result(sent.give, line.update)
            except FallBack as late:
                if not sent.made_here:
                    raise
                recorder.fell_back(late.reason)
                self._telemetry.fell_back(late.reason, f"others cannot have it: {late}", label)
                return sent.made_here[0]
            if not sent.made_here:
                self._recorder.keep(sent.request, functools.partial(sent.give, False))
        if sent.made_here:
            recorder.served(received.served)
            self._telemetry.served(received.served, wait.seconds, 0.0, received.compile_seconds, len(received.artifact))
            self._came(sent.made_here[0], sent.request, sent.placement)
            return sent.made_here[0]
        with recorder.stage(StageKind.STAGE_KIND_LOAD) as load:
            loaded = self._load(received, call, key, sent.placement)
        self._came(loaded, sent.request, sent.placement)
        recorder.served(received.served)
        self._telemetry.served(
            received.served, wait.seconds, load.seconds, received.compile_seconds, len(received.artifact)
        )
        return loaded

    def _check_wanted(self, call: GraphCall) -> None:
        if not self._settings.enabled:
            raise FallBack(Fallback.DISABLED, "INDUCTORD=0")
        try:
            bypass.check(call)
        except bypass.Bypass as reason:
            raise FallBack(reason.reason, str(reason)) from reason
        except Exception as error:
            raise FallBack(Fallback.KEY_FAILED, f"{type(error).__name__}: {error}") from error
        if time.monotonic() < self._avoid_until:
            raise FallBack(
                Fallback.DAEMON_SILENT, f"the daemon was silent; it is asked again after {_AVOID_SILENT_S:.0f} s"
            )

    def _identify(self, call: GraphCall, recorder: SpanRecorder) -> graph_key.Identified:
        with self._daemon_errors():
            cxx_elsewhere = self._client.capabilities().cxx
        try:
            with recorder.stage(StageKind.STAGE_KIND_KEY) as watch:
                identified = graph_key.identify(call, cxx_elsewhere)
        except bypass.Bypass as reason:
            raise FallBack(reason.reason, str(reason)) from reason
        except placement.Unsupported as reason:
            raise FallBack(Fallback.DEVICE_UNSUPPORTED, str(reason)) from reason
        except Exception as error:
            raise FallBack(Fallback.KEY_FAILED, f"{type(error).__name__}: {error}") from error
        self._telemetry.requested(identified.key.digest, watch.seconds)
        return identified

    def _serialize(
        self, call: GraphCall, identified: graph_key.Identified, recorder: SpanRecorder, measures: bool
    ) -> bytes:
        with recorder.stage(StageKind.STAGE_KIND_SERIALIZE) as watch:
            try:
                content = wire.dumps(call, identified.placement)
            except wire.NotSerializable as error:
                raise FallBack(Fallback.SERIALIZE_FAILED, str(error)) from error
            except Exception as error:  # a defect of ours: the rank still trains
                raise FallBack(Fallback.SERIALIZE_FAILED, f"{type(error).__name__}: {error}") from error
            where = identified.placement
            graph = payload.pack_graph(
                payload.Graph(
                    identified.toolchain,
                    call.kind,
                    identified.ambient,
                    content,
                    where.accelerator,
                    where.travels_as,
                    identified.key.parts,
                    measures,
                )
            )
        self._telemetry.sent(len(graph), watch.seconds)
        return graph

    def _compile_for_all(
        self,
        call: GraphCall,
        in_process: InProcess,
        identified: graph_key.Identified,
        recorder: SpanRecorder,
        made_here: list[Any],
    ) -> bytes:
        """Compile a graph on this rank's device and give what others load."""
        try:
            with recorder.stage(StageKind.STAGE_KIND_LOCAL_COMPILE):
                compiled = compiling.compile_for_all(call, in_process, identified.placement, made_here.append)
        except compiling.NotAnArtifact as error:
            raise FallBack(Fallback.NOT_CACHEABLE, str(error)) from error
        except Exception as error:
            if not made_here:
                raise  # the compile's own error
            raise FallBack(Fallback.SERIALIZE_FAILED, f"{type(error).__name__}: {error}") from error
        return payload.pack_artifact(
            payload.Artifact(identified.key.digest, compiled.content, compiled.libraries, compiled.relocations)
        )

    @contextlib.contextmanager
    def _waiting(self, label: str) -> Generator[ProgressLine]:
        line = ProgressLine(label, enabled=self._settings.progress)
        try:
            with self._daemon_errors():
                yield line
        except CompileFailed as failed:
            log.info("inductord: the worker's traceback for %s:\n%s", label, failed.failure.traceback)
            reason = _FAILURE_REASONS.get(failed.failure.kind, Fallback.COMPILE_FAILED)
            raise FallBack(reason, failed.failure.message) from failed
        finally:
            line.close()

    @contextlib.contextmanager
    def _daemon_errors(self) -> Generator[None]:
        try:
            yield
        except Unavailable as lost:
            if lost.reason is Fallback.DAEMON_SILENT:
                self._avoid_until = time.monotonic() + _AVOID_SILENT_S
                self._client.close()
            raise FallBack(lost.reason, str(lost)) from lost

    def _load(self, received: Received, call: GraphCall, key: str, where: Placement) -> Any:
        try:
            return loading.load(payload.unpack_artifact(received.artifact, key), call, where)
        except payload.PayloadError as error:
            raise FallBack(Fallback.ARTIFACT_CORRUPT, str(error)) from error
        except loading.GuardsFailed as error:
            raise FallBack(Fallback.GUARDS_FAILED, str(error)) from error
        except loading.NotInstallable as error:
            raise FallBack(Fallback.INSTALL_FAILED, str(error)) from error
