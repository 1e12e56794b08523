"""Remarks to people on stderr. Apart from ``output``, because ``serve`` and ``run`` shall not wait for rich to be
imported."""

import sys


def remark(text: str) -> None:
    """A line on stderr, marked as inductord's so that it stands out of a job's own output."""
    sys.stderr.write(f"inductord: {text}\n")
    sys.stderr.flush()
