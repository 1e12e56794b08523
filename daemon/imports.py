"""Artifacts that were compiled elsewhere and are brought to this daemon as sealed objects, one at a time.

Only what is signed with one of the daemon's keys is stored: who can merely reach the socket publishes nothing.
"""

import asyncio

from inductord.daemon.errors import Incompatible
from inductord.daemon.metrics.shared import SharedMetrics
from inductord.daemon.shared.events import Put
from inductord.daemon.shared.keys import KeyFile
from inductord.daemon.shared.sealed import Refusal, Refused, Unsealed, unseal
from inductord.daemon.store import ArtifactTooLarge, Store
from inductord.v1.sealed_pb2 import SEALED_CONTENT_ARTIFACT


class Imports:
    """``keys``: None when the daemon has none, and so takes nothing."""

    def __init__(self, store: Store, keys: KeyFile | None, metrics: SharedMetrics, max_artifact_bytes: int) -> None:
        self._store = store
        self._keys = keys
        self._metrics = metrics
        self.max_artifact_bytes = max_artifact_bytes

    def check(self) -> KeyFile:
        """The keys.

        Raises:
            Incompatible: there are none.
        """
        if self._keys is None:
            raise Incompatible(
                "this daemon has no keys to verify what is imported. Set shared_store_keys, or stop the daemon and import "
                "into the folder of its store."
            )
        return self._keys

    async def put(self, key: str, sealed: bytes) -> Put | Refusal:
        """Store the artifact of a sealed object under ``key``, if it is what it should be."""
        result = await self._put(key, sealed)
        self._metrics.imported(result)
        return result

    async def _put(self, key: str, sealed: bytes) -> Put | Refusal:
        keys = self.check()

        def verify() -> Unsealed:
            return unseal(sealed, keys.current(), key=key, tenant="", content=SEALED_CONTENT_ARTIFACT)

        try:
            found = await asyncio.to_thread(verify)
            if self._store.find(key) is not None:
                return Put.PRESENT
            await self._store.publish(key, found.content, found.meta())
        except Refused as refused:
            return refused.reason
        except ArtifactTooLarge:
            return Refusal.TOO_LARGE
        return Put.STORED
