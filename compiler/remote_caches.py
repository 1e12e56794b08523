"""What ranks count of the caches that the daemon keeps for them. Closed sets: values are stable, as labels and in reports."""

import enum


class RemoteCache(enum.StrEnum):
    """A cache by its name: PyTorch's own where the cache is PyTorch's."""

    AOTAUTOGRAD = "autograd-experimental"
    PROFILE = "dynamo-pgo"
    REGIONS = "regions"


class CacheResult(enum.StrEnum):
    """What became of an entry that was asked for (hit, miss) or made (kept, skipped)."""

    HIT = "hit"
    MISS = "miss"
    KEPT = "kept"
    # It cannot be kept, or the daemon does not take it.
    SKIPPED = "skipped"
    # It could not be read or written; the log says why.
    FAILED = "failed"
