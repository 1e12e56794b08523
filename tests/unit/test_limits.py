import os
from pathlib import Path

import pytest

from inductord.worker import limits
from inductord.worker.limits import Machine

pytestmark = pytest.mark.unit
GIB = 1024**3


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return root


V2 = {"proc/self/cgroup": "0::/pod/container"}
V1 = {"proc/self/cgroup": "5:cpu,cpuacct:/pod\n4:memory:/pod\n1:name=systemd:/\n0::/"}


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        pytest.param(V2 | {"sys/fs/cgroup/pod/container/cpu.max": "250000 100000"}, 2.5, id="v2"),
        pytest.param(V2 | {"sys/fs/cgroup/pod/container/cpu.max": "max 100000"}, None, id="v2 unlimited"),
        pytest.param(
            V2
            | {
                "sys/fs/cgroup/pod/container/cpu.max": "max 100000",
                "sys/fs/cgroup/pod/cpu.max": "300000 100000",
                "sys/fs/cgroup/cpu.max": "800000 100000",
            },
            3.0,
            id="v2 the strictest above counts",
        ),
        pytest.param(V2 | {"sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5, id="v2 in a container: only the root shows"),
        pytest.param(
            V1
            | {
                "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us": "100000",
            },
            4.0,
            id="v1",
        ),
        pytest.param(
            V1
            | {
                "sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/pod/cpu.cfs_period_us": "100000",
            },
            None,
            id="v1 unlimited, controller by its own name",
        ),
        pytest.param(
            V1 | {"sys/fs/cgroup/unified/x": "", "sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us": "100000"},
            None,
            id="v1 without a period",
        ),
        pytest.param(V2 | {"sys/fs/cgroup/pod/container/cpu.max": "rubbish"}, None, id="rubbish"),
        pytest.param({}, None, id="nothing mounted"),
    ],
)
def test_cpu_quota(tmp_path: Path, files: dict[str, str], cpus: float | None) -> None:
    assert limits.cpu_quota(tree(tmp_path, files)) == cpus


MEMINFO = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB"}


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        pytest.param(V2 | MEMINFO | {"sys/fs/cgroup/pod/container/memory.max": str(3 * GIB)}, 3 * GIB, id="v2"),
        pytest.param(V2 | MEMINFO | {"sys/fs/cgroup/pod/container/memory.max": "max"}, 16 * GIB, id="v2 unlimited"),
        pytest.param(
            V2
            | MEMINFO
            | {
                "sys/fs/cgroup/pod/container/memory.max": str(8 * GIB),
                "sys/fs/cgroup/pod/memory.max": str(4 * GIB),
            },
            4 * GIB,
            id="v2 the pod is stricter",
        ),
        pytest.param(V1 | MEMINFO | {"sys/fs/cgroup/memory/pod/memory.limit_in_bytes": str(5 * GIB)}, 5 * GIB, id="v1"),
        pytest.param(
            V1 | MEMINFO | {"sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "9223372036854771712"},
            16 * GIB,
            id="v1 unlimited",
        ),
        pytest.param({}, None, id="nothing says"),
    ],
)
def test_memory_limit(tmp_path: Path, files: dict[str, str], memory: int | None) -> None:
    assert limits.memory_limit(tree(tmp_path, files)) == memory


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        pytest.param(V2 | {"sys/fs/cgroup/pod/container/memory.events": "oom 9\noom_kill 3"}, 3, id="v2"),
        pytest.param(
            V1 | {"sys/fs/cgroup/memory/pod/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2"},
            2,
            id="v1",
        ),
        pytest.param({}, 0, id="nothing says"),
    ],
)
def test_oom_kills(tmp_path: Path, files: dict[str, str], kills: int) -> None:
    assert limits.oom_kills(tree(tmp_path, files)) == kills


@pytest.mark.parametrize(
    ("machine", "workers"),
    [
        (Machine(cpus=8, memory_bytes=64 * GIB), 8),
        (Machine(cpus=8, memory_bytes=5 * GIB), 2),
        (Machine(cpus=8, memory_bytes=GIB), 1),
        (Machine(cpus=1, memory_bytes=64 * GIB), 1),
        (Machine(cpus=4, memory_bytes=None), 4),
    ],
)
def test_workers_fit_into_cpus_and_memory(machine: Machine, workers: int) -> None:
    assert machine.max_workers() == workers


def test_the_quota_is_rounded_down_and_never_to_nothing(tmp_path: Path) -> None:
    tree(tmp_path, V2 | MEMINFO | {"sys/fs/cgroup/pod/container/cpu.max": "50000 100000"})
    assert limits.this_machine(tmp_path) == Machine(cpus=1, memory_bytes=16 * GIB)


def test_without_a_quota_the_affinity_counts(tmp_path: Path) -> None:
    assert limits.this_machine(tmp_path).cpus == len(os.sched_getaffinity(0))


def test_this_very_machine_says_something() -> None:
    machine = limits.this_machine()
    assert machine.cpus >= 1
    assert machine.memory_bytes is not None
    assert machine.memory_bytes > 2**26
