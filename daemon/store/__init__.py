"""The node's artifacts: a content-addressed disk store under a memory tier.

It stores bytes under keys. It must not look into those bytes, decide who may compile, or touch metrics: it tells an
observer what happens.

    records   what an entry is, what the store reports, what it raises
    catalog   the index in memory: order of use, sharing, pins (pure)
    memory    the memory tier (pure)
    lock      one daemon per store
    index     rows on disk, in SQLite
    blobs     files on disk, and their quarantine
    disk      lock, index and blobs as one; recovery at open
    store     the asynchronous whole
"""

from inductord.daemon.store.records import (
    ArtifactTooLarge,
    EvictReason,
    Meta,
    ReadTier,
    Record,
    StoreBusy,
    StoreError,
    StoreEvents,
    StoreUnusable,
)
from inductord.daemon.store.store import Store

__all__ = [
    "ArtifactTooLarge",
    "EvictReason",
    "Meta",
    "ReadTier",
    "Record",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreEvents",
    "StoreUnusable",
]
