"""TuningService: translates between the stream's messages and who tunes what."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from inductord.daemon.auth.gate import current_caller
from inductord.daemon.errors import GaveUp, InvalidRequest, OverLimit
from inductord.daemon.orders import check_key, check_requester
from inductord.daemon.store import ArtifactTooLarge
from inductord.daemon.tenancy import scoped
from inductord.daemon.tuning import TuningResult, Tunings
from inductord.v1.tuning_pb2 import LeadTuning, OpenTuning, TuneRequest, TuneResponse, TuningRecord
from inductord.v1.tuning_pb2_grpc import TuningServiceServicer

MAX_RECORD_BYTES = 4 << 20
_OPEN_SECONDS = 30.0
_LEAD_SECONDS = 300.0
_MAX_DEVICE = 128

_Context = grpc.aio.ServicerContext[Any, Any]
_Requests = AsyncIterator[TuneRequest]


class TuningService(TuningServiceServicer):
    """What ranks ask before they measure kernels. ``ended``: told how each of them came to its choice."""

    def __init__(self, tunings: Tunings, ended: Callable[[TuningResult], None]) -> None:
        self._tunings = tunings
        self._ended = ended

    async def Tune(self, request_iterator: _Requests, context: _Context) -> AsyncIterator[TuneResponse]:
        """The choice for one kernel."""
        opening = _opening(await _next(request_iterator, _OPEN_SECONDS))
        key = scoped(current_caller().tenant, check_key(opening.key))
        job = check_requester(opening.requester).job
        result, kept_result = TuningResult.FAILED, TuningResult.FOUND
        try:
            while True:
                if (kept := await self._tunings.record(key)) is not None:
                    result = kept_result
                    yield TuneResponse(record=TuningRecord.FromString(kept))
                    return
                async with self._tunings.turn(key, opening.device[:_MAX_DEVICE]) as leads:
                    if not leads:
                        kept_result = TuningResult.JOINED
                        continue
                    yield TuneResponse(lead=LeadTuning())
                    record = _record(await _next(request_iterator, _LEAD_SECONDS))
                    try:
                        kept = await self._tunings.publish(key, record, job)
                    except ArtifactTooLarge as error:
                        raise OverLimit(str(error)) from error
                    result = TuningResult.MEASURED
                    yield TuneResponse(record=TuningRecord.FromString(kept))
                    return
        finally:
            self._ended(result)


async def _next(requests: _Requests, seconds: float) -> TuneRequest:
    try:
        async with asyncio.timeout(seconds):
            return await anext(requests)
    except StopAsyncIteration:
        raise InvalidRequest("the stream ended where a message was due.") from None
    except TimeoutError:
        raise GaveUp(f"no message came for {seconds:g} s; somebody else may tune this kernel now.") from None


def _opening(message: TuneRequest) -> OpenTuning:
    if message.WhichOneof("message") != "open":
        raise InvalidRequest("the first message has to be `open`.")
    return message.open


def _record(message: TuneRequest) -> bytes:
    if message.WhichOneof("message") != "record":
        raise InvalidRequest("a leader's message has to be `record`.")
    record = message.record.SerializeToString()
    if len(record) > MAX_RECORD_BYTES:
        raise InvalidRequest(f"the record has {len(record)} bytes; {MAX_RECORD_BYTES} are allowed.")
    return record
