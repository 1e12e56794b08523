"""Which configuration of a kernel this rank uses: what the daemon knows, or what this rank measures for all."""

import logging
import queue
from collections.abc import Callable

import grpc

from inductord.compiler.client import Client
from inductord.compiler.reasons import Fallback
from inductord.compiler.unavailable import Unavailable, as_unavailable
from inductord.compiler.versions import this_version
from inductord.v1.compiler_pb2 import Requester
from inductord.v1.tuning_pb2 import OpenTuning, TuneRequest, TuningRecord
from inductord.v1.tuning_pb2_grpc import TuningServiceStub

log = logging.getLogger("inductord")

_MAX_WAIT_S = 120.0
"""Well under the timeout of a process group: other ranks may wait in a collective for this one."""

Measure = Callable[[], TuningRecord]


class Tuner:
    """Asks the daemon for choices, and gives it this rank's."""

    def __init__(self, client: Client, requester: Callable[[], Requester]) -> None:
        self._client = client
        self._requester = requester

    def choose(self, key: str, device: str, measure: Measure) -> TuningRecord:
        """The record that all ranks use for ``key``. ``measure`` is called when this rank is to make it, and when the daemon
        cannot be had.

        Raises:
            Whatever ``measure`` raises.
        """
        measured: list[TuningRecord] = []

        def once() -> TuningRecord:
            if not measured:
                measured.append(measure())
            return measured[0]

        try:
            return self._ask(key, device, once)
        except Unavailable as lost:
            log.info("inductord: this rank tunes a kernel for itself: %s", lost)
            return once()

    def _ask(self, key: str, device: str, measure: Measure) -> TuningRecord:
        outgoing: queue.SimpleQueue[TuneRequest | None] = queue.SimpleQueue()
        opening = OpenTuning(client=this_version(), key=key, device=device, requester=self._requester())
        outgoing.put(TuneRequest(open=opening))
        call = TuningServiceStub(self._client.channel()).Tune(iter(outgoing.get, None), timeout=_MAX_WAIT_S)
        try:
            for response in call:
                if response.WhichOneof("message") == "record":
                    record: TuningRecord = response.record
                    return record
                outgoing.put(TuneRequest(record=measure()))
        except grpc.RpcError as error:
            raise as_unavailable(error) from error
        finally:
            outgoing.put(None)
            call.cancel()
        raise Unavailable(Fallback.DAEMON_ERROR, "the daemon ended the stream without a record")
