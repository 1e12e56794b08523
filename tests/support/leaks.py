"""Finds processes that a test session leaves behind, orphans included: whatever it starts inherits its mark."""

import os
import uuid

import psutil
from support.pools import DEADLINE_S

_MARK = "TEST_SESSION_OF_INDUCTORD"


def set_mark() -> str:
    """Mark all processes that this one starts from now on."""
    mark = uuid.uuid4().hex
    os.environ[_MARK] = mark
    return mark


def marked(mark: str) -> list[psutil.Process]:
    """Running processes with this mark. One that may not be looked into is somebody else's."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue  # ended meanwhile, or not ours to read
    return found


def left_behind(mark: str) -> list[str]:
    """Command lines of processes that do not end by themselves, which are ended here."""
    _, left = psutil.wait_procs(marked(mark), timeout=DEADLINE_S)
    lines = []
    for process in left:
        try:
            lines.append(f"{process.pid}: {' '.join(process.cmdline())}")
            process.kill()
        except psutil.NoSuchProcess:
            continue  # it ended after all
    return lines
