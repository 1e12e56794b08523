"""CacheService: values of PyTorch's own remote caches, each tenant's its own."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from inductord.daemon.auth.gate import current_caller
from inductord.daemon.cache import BlobCache
from inductord.daemon.errors import InvalidRequest, OverLimit
from inductord.v1 import cache_pb2 as pb
from inductord.v1.cache_pb2_grpc import CacheServiceServicer

MAX_CACHE_LENGTH = 64
MAX_KEY_LENGTH = 512
MAX_VALUE_BYTES = 8 << 20

_Context = grpc.aio.ServicerContext[Any, Any]


class CacheService(CacheServiceServicer):
    """Serves one cache, from a thread of its own."""

    def __init__(self, cache: BlobCache) -> None:
        self._cache = cache
        self._thread = ThreadPoolExecutor(1, "inductord-cache")

    @property
    def failures(self) -> int:
        """How often the file was of no use."""
        return self._cache.failures

    async def GetBlob(self, request: pb.GetBlobRequest, context: _Context) -> pb.GetBlobResponse:
        """A value."""
        place = _place(request.cache, request.key)
        value = await asyncio.get_running_loop().run_in_executor(self._thread, self._cache.get, *place)
        return pb.GetBlobResponse(value=value)

    async def PutBlob(self, request: pb.PutBlobRequest, context: _Context) -> pb.PutBlobResponse:
        """Keep a value."""
        place = _place(request.cache, request.key)
        if len(request.value) > MAX_VALUE_BYTES:
            raise OverLimit(f"a value of {len(request.value)} bytes; {MAX_VALUE_BYTES} are allowed.")
        loop = asyncio.get_running_loop()
        return pb.PutBlobResponse(kept=await loop.run_in_executor(self._thread, self._cache.put, *place, request.value))

    async def close(self) -> None:
        """Close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._cache.close)
        self._thread.shutdown()


def _place(cache: str, key: str) -> tuple[str, str, str]:
    if not 0 < len(cache) <= MAX_CACHE_LENGTH or not 0 < len(key) <= MAX_KEY_LENGTH:
        raise InvalidRequest(
            f"a cache has a name of 1 to {MAX_CACHE_LENGTH} characters and a key 1 to {MAX_KEY_LENGTH}; "
            f"these have {len(cache)} and {len(key)}."
        )
    return current_caller().tenant, cache, key
