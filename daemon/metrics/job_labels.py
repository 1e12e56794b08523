"""Which jobs have a label of their own: clients choose names, so there are few, short ones.

Pure, with an injected clock.
"""

import hashlib
from collections.abc import Callable

from inductord.daemon.rank_stats import OTHER

MAX_LABELS = 20
"""Jobs with a label at one time. Each costs 2 to 3 kB of a scrape, which has 200 kB."""
LINGER_S = 900.0
"""A job of which nothing was heard for so long loses its label. Longer than Prometheus needs to see the last values."""

_MAX_LENGTH = 40
_DIGEST = 8


class JobLabels:
    """The first ``most`` jobs get their name as label, the others `OTHER`, until one of the first is gone.

    ``released``: told of each label that nobody has any more.
    """

    def __init__(self, clock: Callable[[], float], released: Callable[[str], None], *, most: int = MAX_LABELS) -> None:
        self._clock = clock
        self._released = released
        self._most = most
        self._seen: dict[str, float] = {}

    def label(self, job: str) -> str:
        """The label of a job that does something now."""
        name = short(job)
        if name not in self._seen:
            self.release()
            if name == OTHER or not name or len(self._seen) >= self._most:
                return OTHER
        self._seen[name] = self._clock()
        return name

    def current(self, job: str) -> str:
        """The label that a job has; asking does not keep it."""
        name = short(job)
        return name if name in self._seen else OTHER

    def release(self) -> None:
        """Take the labels of jobs that are gone."""
        oldest = self._clock() - LINGER_S
        for name in [name for name, seen in self._seen.items() if seen < oldest]:
            del self._seen[name]
            self._released(name)


def short(job: str) -> str:
    """The name if it is short, else its beginning and a digest of the whole."""
    if len(job) <= _MAX_LENGTH:
        return job
    digest = hashlib.sha256(job.encode()).hexdigest()[:_DIGEST]
    return f"{job[: _MAX_LENGTH - _DIGEST - 1]}-{digest}"
