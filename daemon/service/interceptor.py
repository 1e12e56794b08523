"""Around every RPC: the gate says who calls, bytes are decoded, refusals get their status code, start and end are counted.

Decoding is done here and not by gRPC, because gRPC answers malformed bytes with UNKNOWN and a traceback in the log.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from inductord.daemon.activity import Activity
from inductord.daemon.auth.gate import Gate
from inductord.daemon.errors import InvalidRequest, ServiceError
from inductord.daemon.metrics.families import Metrics, rpc_type
from inductord.daemon.service.errors import status_code

_log = logging.getLogger("inductord.service")

Context = grpc.aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Interceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """See the module's docstring."""

    def __init__(self, metrics: Metrics, activity: Activity, gate: Gate) -> None:
        self._metrics = metrics
        self._activity = activity
        self._gate = gate

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler:
        """The handler of the method, wrapped; unknown methods are left to gRPC."""
        handler = await continuation(handler_call_details)
        return handler and self._wrap(handler, str(handler_call_details.method))

    def _wrap(self, handler: _Handler, method: str) -> _Handler:
        _, service, name = method.split("/", 2)
        labels = (rpc_type(handler.request_streaming, handler.response_streaming), service, name)
        decode = _decoder(handler.request_deserializer)
        options = {"request_deserializer": None, "response_serializer": _encode}
        if handler.unary_unary:
            unary: Callable[..., Any] = handler.unary_unary

            async def call(raw: bytes, context: Context) -> Any:
                async with self._around(context, labels):
                    return await unary(decode(raw), context)

            return grpc.unary_unary_rpc_method_handler(call, **options)
        if handler.unary_stream:
            streaming: Callable[..., Any] = handler.unary_stream

            async def stream(raw: bytes, context: Context) -> None:
                async with self._around(context, labels):
                    await _run(streaming(decode(raw), context), context)

            return grpc.unary_stream_rpc_method_handler(stream, **options)
        if handler.stream_unary:
            collecting: Callable[..., Any] = handler.stream_unary

            async def collect(requests: AsyncIterator[bytes], context: Context) -> Any:
                async with self._around(context, labels):
                    return await collecting((decode(raw) async for raw in requests), context)

            return grpc.stream_unary_rpc_method_handler(collect, **options)
        both: Callable[..., Any] = handler.stream_stream  # type: ignore[assignment]  # the last kind that we have

        async def streams(requests: AsyncIterator[bytes], context: Context) -> None:
            async with self._around(context, labels):
                await _run(both((decode(raw) async for raw in requests), context), context)

        return grpc.stream_stream_rpc_method_handler(streams, **options)

    @contextlib.asynccontextmanager
    async def _around(self, context: Context, labels: tuple[str, str, str]) -> AsyncIterator[None]:
        metrics = self._metrics
        metrics.rpc_started.labels(*labels).inc()
        begun = time.monotonic()
        code = grpc.StatusCode.UNKNOWN
        try:
            self._gate.admit(
                "/{1}/{2}".format(*labels), context.peer(), context.auth_context(), context.invocation_metadata() or ()
            )
            with self._activity.during(labels[1]):
                yield
            code = grpc.StatusCode.OK
        except ServiceError as error:
            code = status_code(error)
            _log.debug("/%s/%s: %s: %s", *labels[1:], code.name, error)
            await context.abort(code, str(error))
        except grpc.aio.AbortError:
            code = _CODES.get(context.code(), grpc.StatusCode.UNKNOWN)
            raise
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        except Exception as error:  # noqa: BLE001 -- the boundary: every defect becomes INTERNAL and is logged
            code = grpc.StatusCode.INTERNAL
            _log.exception("a defect of inductord in /%s/%s", *labels[1:])
            await context.abort(code, f"a defect of inductord, logged by the daemon: {type(error).__name__}")
        finally:
            metrics.rpc_handled.labels(*labels, code.name).inc()
            metrics.rpc_handling.labels(*labels).observe(time.monotonic() - begun)


async def _run(result: Any, context: Context) -> None:
    """Servicers stream in two ways: by writing to the context, or by yielding."""
    if isinstance(result, AsyncIterator):
        async for message in result:
            await context.write(message)
    else:
        await result


def _decoder(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    def decode(raw: bytes) -> Any:
        try:
            return deserialize(raw) if deserialize else raw
        except DecodeError as error:
            raise InvalidRequest(f"these bytes are no message of this protocol: {error}") from error

    return decode


def _encode(message: Message | bytes) -> bytes:
    # Chunks that many clients share come serialised.
    return message if isinstance(message, bytes) else message.SerializeToString()
