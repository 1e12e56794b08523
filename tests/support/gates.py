"""Graphs of a job that are held while they are compiled, until the test lets them go."""

import contextlib
from pathlib import Path

import psutil
from support.cluster import CONNECTED_S
from support.daemon import wait_until
from support.jobs import fault
from support.training import Running

_MOST_COMPILES = 100


class Gates:
    """Each graph is held by the worker that has it until it is let go; the worker tells its pid. For workers that know
    ``FAULT_STEPS`` (``tests/workers/faults.py``)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def faults(self) -> dict[str, str]:
        """Variables for workers."""
        steps = (["touch", f"{self._folder}/{{key}}.pid"], ["wait_for", f"{self._folder}/{{key}}.go"])
        return fault(self._folder, _MOST_COMPILES, *steps)

    def worker(self, key: str, job: Running | None = None) -> psutil.Process:
        """The one that has the graph, once one that lives has. The next call finds the next one. ``job``: fails when this ends
        before."""
        pid, what = self._folder / f"{key}.pid", f"a worker has {key}"
        taken = pid.with_suffix(".taken")
        while True:
            if job is None:
                wait_until(pid.exists, what, CONNECTED_S)
            else:
                job.until(pid.exists, what)
            pid.rename(taken)
            # One that is gone by now had the graph from whatever was killed before, a registry for instance.
            with contextlib.suppress(psutil.NoSuchProcess):
                return psutil.Process(int(taken.read_text()))

    def close(self, key: str) -> None:
        """Hold the graph again whenever a worker begins it."""
        (self._folder / f"{key}.go").unlink()

    def open(self, key: str) -> None:
        """Let the graph be finished, now and whenever it is compiled again."""
        (self._folder / f"{key}.go").touch()
