"""Features on a real GPU, through a daemon whose workers see none: the bits are those of plain Inductor, and ranks compile no
kernel. A second job starts with empty caches of its own, and finds no compiler on PATH.

What Inductor decides by measuring, it may decide otherwise each time, and a sum then has other bits. So plain Inductor finds
what was measured in the first job, in the caches that it keeps such decisions in; graphs and kernels it compiles anew.
"""

import concurrent.futures
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from support.daemon import DaemonProcess, running_daemon
from support.features import names
from support.training import NO_GRAPH_CACHE, Ended, python, train

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1800)]

if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU; no other test does", allow_module_level=True)

# Machines with GPUs tend to name a compiler of theirs, which a rank that has no PATH would find.
NO_OTHER_COMPILER = {"CXX": None, "CC": None}
SCRIPTS = ("features.py", "gpu_features.py")
FEATURES = [(script, name) for script in SCRIPTS for name in names(script)]

# By feature, why each graph of it that falls back does.
FALLS_BACK = {
    "custom pass of the script": ["worker_cannot_load"],
    "custom pass without identity": ["not_cacheable"],
    "cpp_wrapper": ["device_unsupported", "device_unsupported"],
}
# A rank measures, or compiles for all because it has the values or the driver: in a second job no rank does. torchao sets
# coordinate descent.
ONCE = {
    "max-autotune",
    "coordinate descent",
    "torchao int8 weights",
    "freezing",
    "constants",
    "sparse gradients",
    "kernels tuned while they are compiled",
}
# Triton builds its driver, in C, for kernels that PyTorch's static launcher does not take.
NEEDS_COMPILER = {"Triton kernels of the user", "Triton kernels of the user, training", *FALLS_BACK}


class Sides:
    """What each feature gave: on plain Inductor, through the daemon, and in a second job of the same daemon."""

    def __init__(self, daemon: DaemonProcess, folder: Path) -> None:
        self._daemon = daemon

        def job(side: str, script: str, address: str | None, names: list[str], **more: str | None) -> Ended:
            command = python(script, "--device", "cuda", *names)
            return train(folder / side / script, command, address, **NO_GRAPH_CACHE, **NO_OTHER_COMPILER, **more)

        with concurrent.futures.ThreadPoolExecutor() as threads:
            first = [threads.submit(job, "first", script, daemon.address, []) for script in SCRIPTS]
            self.first = [each.result() for each in first]
            for script in SCRIPTS:
                shutil.copytree(folder / "first" / script / "inductor", folder / "plain" / script / "inductor")
            plain = [threads.submit(job, "plain", script, None, []) for script in SCRIPTS]
            served = {s: [name for name in names(s) if name not in NEEDS_COMPILER] for s in SCRIPTS}
            second = [
                threads.submit(job, "second", script, daemon.address, served[script], PATH="/nonexistent")
                for script in SCRIPTS
            ]
            self.second = [each.result() for each in second]
            self.plain = [each.result() for each in plain]

    def nearest(self, key: str, others: Iterable[str]) -> dict[str, tuple[str, str]]:
        """The parts of a key that differ from those of the one that is most like it."""
        parts = self._parts(key)
        return min((_differing(parts, self._parts(other)) for other in others), key=len)

    def _parts(self, key: str) -> Mapping[str, str]:
        try:
            entry = self._daemon.entry(key)
        except grpc.RpcError as error:  # of what no worker compiled nothing is stored
            return {"entry": str(error.code())}
        return dict(entry.key_parts) | {"kind": str(entry.kind)}

    @staticmethod
    def of(jobs: list[Ended], feature: tuple[str, str]) -> dict[str, Any]:
        """What this feature gave in these jobs."""
        found: dict[str, Any] = jobs[SCRIPTS.index(feature[0])].result[feature[1]]
        return found


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    pairs = {name: (one.get(name, ""), other.get(name, "")) for name in {*one, *other}}
    return {name: values for name, values in pairs.items() if values[0] != values[1]}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("gpu")
    settings = {"worker_command": f"{sys.executable} -m inductord.worker", "max_workers": 6, "heartbeat_seconds": 2}
    with running_daemon(folder / "daemon", environment=NO_OTHER_COMPILER, **settings) as daemon:
        yield Sides(daemon, folder)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature[1])
def test_the_numbers_are_bitwise_those_of_inductor(sides: Sides, feature: tuple[str, str]) -> None:
    name = feature[1]
    plain, first = sides.of(sides.plain, feature), sides.of(sides.first, feature)
    if "ModuleNotFoundError" in plain.get("error", ""):
        pytest.skip(plain["error"].strip().splitlines()[-1])
    assert "error" not in plain, plain["error"]
    assert "error" not in first, first["error"]
    reasons = [re.findall(r"\((\w+)\)$", said)[0] for said in first["said"]]
    assert (reasons, first["digest"]) == (FALLS_BACK.get(name, []), plain["digest"]), first["failed"]
    if not reasons and name not in ONCE:
        assert first["kernels"] == []
    if name not in NEEDS_COMPILER:
        assert sides.of(sides.second, feature) == {**first, "kernels": []}


def test_a_second_job_compiles_nothing(sides: Sides) -> None:
    known = {key for job in sides.first for key in job.keys}
    new = {key for job in sides.second for key in job.keys} - known
    assert new == set(), [sides.nearest(key, known) for key in new]
    for job in sides.second:
        assert (job.count("led"), job.count("joined"), job.fallbacks) == (0, 0, {}), job.err
        assert job.count("hits") == job.count("requests") > 0
