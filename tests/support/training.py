"""Ranks as jobs have them: processes that import torch and train, with caches of their own.

The scripts are those of ``tests/jobs``. Each prints one JSON value as the last line of its output.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parent.parent / "jobs"
TIMEOUT_S = 1500.0
"""A compile of seconds takes minutes on a machine that does many at once."""

NO_GRAPH_CACHE = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
"""Variables that turn Inductor's own caches of graphs off: every graph then comes to the seam."""

_SITE = str(JOBS / "site")
FINDS_SUPPORT = {"PYTHONPATH": os.pathsep.join([_SITE, str(JOBS.parent)])}
"""Variables by which a script finds the package ``support``."""

# What a shell or another job may have set, and what a test sets itself.
_FOREIGN = ("INDUCTORD", "TORCHINDUCTOR_", "TORCHELASTIC_", "TORCHDYNAMO_", "TORCH_LOGS", "TORCH_COMPILE_DEBUG")
_OF_RANKS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CXX"})


@dataclasses.dataclass(frozen=True)
class Ended:
    """A command that ended. ``reports``: what its processes left in their report folder."""

    code: int
    out: str
    err: str
    reports: Sequence[Mapping[str, Any]]

    @property
    def result(self) -> Any:
        """The JSON value in the last line of its output."""
        assert self.code == 0, f"exit code {self.code}\n{self.out[-4000:]}\n{self.err[-8000:]}"
        return json.loads(self.out.splitlines()[-1])

    @property
    def results(self) -> list[Any]:
        """The JSON value of each rank under torchrun. Ranks print at once, and so may share a line."""
        return [json.loads(line) for line in self.out.replace("}{", "}\n{").splitlines() if line]

    def count(self, name: str) -> int:
        """A count over all ranks: requests, hits, joined or led."""
        return sum(int(report.get(name, 0)) for report in self.reports)

    @property
    def fallbacks(self) -> dict[str, int]:
        """Local compiles over all ranks, by reason."""
        sums: dict[str, int] = {}
        for report in self.reports:
            for reason, count in report.get("fallbacks", {}).items():
                sums[reason] = sums.get(reason, 0) + int(count)
        return sums

    @property
    def keys(self) -> set[str]:
        """The distinct keys that were asked for."""
        return {key for report in self.reports for key in report.get("keys", [])}


def environment(folder: Path, address: str | None, **more: str | None) -> dict[str, str]:
    """The variables of a job whose caches are in ``folder``, with a report folder of its own. Graphs are compiled whole, as
    plain Inductor does, unless ``more`` says otherwise.

    Args:
        folder: what is there already stays: a second job in the same folder finds the caches of the first.
        address: of the daemon; None makes it a job without inductord.
        more: further variables; None removes one.
    """
    for name in ("tmp", "inductor", "triton"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    env: dict[str, str | None] = {
        name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN) and name not in _OF_RANKS
    }
    env |= {
        "INDUCTORD_REPORT_DIR": tempfile.mkdtemp(prefix="reports-", dir=folder),
        "TMPDIR": str(folder / "tmp"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # A rank would load four libraries in processes of their own to try what the CPU says of itself: two CPU-seconds.
        # Besides, it is a setting that ranks have from a variable, and workers have not.
        "TORCHINDUCTOR_VEC_ISA_OK": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": _SITE,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if address is not None:
        env |= {"INDUCTORD": "1", "INDUCTORD_ADDRESS": address, "INDUCTORD_REGIONS": "off"}
    return {name: value for name, value in (env | more).items() if value is not None}


class Running:
    """A job that was started: its output is collected, and it is ended when it takes for ever."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._reports = Path(env["INDUCTORD_REPORT_DIR"])
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that this job brings about; fails at once when it ended without."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if self.process.poll() is not None:
                assert condition(), f"the job ended and never: {what}\n{self.finish().err[-8000:]}"
                return
            assert time.monotonic() < deadline, f"never: {what}"
            time.sleep(0.05)

    def close(self) -> None:
        """End it by force if it still runs, and let go of its output."""
        with self.process:
            self.process.kill()

    def finish(self) -> Ended:
        """Wait for its end."""
        with self.process:
            try:
                out, err = self.process.communicate(timeout=TIMEOUT_S)
            except BaseException:
                self.process.kill()
                raise
        reports = [json.loads(path.read_text()) for path in sorted(self._reports.glob("rank-*.json"))]
        return Ended(self.process.returncode, out, err, reports)


def python(script: str, *args: str) -> list[str]:
    """The command of a script of ``tests/jobs`` as one rank."""
    return [sys.executable, str(JOBS / script), *args]


def torchrun(ranks: int, script: str, *args: str, restarts: int = 0) -> list[str]:
    """The command of a script of ``tests/jobs`` as several ranks of one node. ``restarts``: how often all are started again
    when one dies."""
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)),
        *("--max-restarts", str(restarts)),
        *(str(JOBS / script), *args),
    ]


def train(folder: Path, command: Sequence[str], address: str | None, **more: str | None) -> Ended:
    """Run a job to its end; see ``environment``."""
    return Running(command, environment(folder, address, **more)).finish()


class Plain:
    """What commands give on plain Inductor. One cache folder for all, and each is run once: to compile is dear."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, Running] = {}
        self._known: dict[str, Any] = {}

    def start(self, command: Sequence[str]) -> None:
        """Begin, beside what the test does meanwhile."""
        name = json.dumps(command)
        if name not in self._running:
            self._running[name] = Running(command, environment(self.folder, None))

    def __call__(self, command: Sequence[str]) -> Any:
        """The JSON value that a command prints."""
        self.start(command)
        name = json.dumps(command)
        if name not in self._known:
            self._known[name] = self._running[name].finish().result
        return self._known[name]

    def close(self) -> None:
        """End by force what nobody waited for."""
        for running in self._running.values():
            with running.process:
                running.process.kill()
