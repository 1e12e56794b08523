"""A Ray cluster of several nodes on this machine, its faults, and daemons that use it."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from support.daemon import DaemonProcess, running_daemon
from support.pools import SCRIPTED

# Ray puts sockets below this folder, and their paths are short.
_FOLDER_PREFIX = "ind-ray-"


def set_token() -> None:
    """A token for clusters of this session: Ray would write one into HOME."""
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


class RayCluster:
    """Nodes of one cluster; the head has no CPUs, as Kubernetes operators set it up."""

    def __init__(self, workers: int, cpus: int, head_arguments: dict[str, Any] | None = None) -> None:
        set_token()
        from ray.cluster_utils import Cluster

        # Ray notes its newest cluster there, whatever folder the cluster has.
        Path("/tmp/ray").mkdir(exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir="/tmp"))
        self._before = {process.pid for process in psutil.Process().children(recursive=True)}
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "temp_dir": str(self.folder),
                "include_dashboard": False,
                "object_store_memory": 100 << 20,
                **(head_arguments or {}),
            },
        )
        self.head = self._cluster.head_node
        self.nodes = [self.add_node(cpus) for _ in range(workers)]

    @property
    def address(self) -> str:
        """What ``RAY_ADDRESS`` takes."""
        return str(self._cluster.address)

    def add_node(self, cpus: int, **arguments: Any) -> Any:
        """One more node."""
        return self._cluster.add_node(num_cpus=cpus, object_store_memory=100 << 20, **arguments)

    def kill_node(self, node: Any) -> None:
        """A node goes away, with all that runs there."""
        self._cluster.remove_node(node, allow_graceful=False)

    def processes(self) -> list[psutil.Process]:
        """All of the cluster that run."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.folder) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def close(self) -> None:
        """End all nodes, by force in the end."""
        mine = self.processes()
        with contextlib.suppress(Exception):
            self._cluster.shutdown()
        _, left = psutil.wait_procs(mine, timeout=10)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def ray_daemon(folder: Path, address: str, **settings: object) -> Iterator[DaemonProcess]:
    """A daemon whose pool is the cluster at ``address``, with scripted workers."""
    environment = {"RAY_ADDRESS": address} if not address.startswith("ray://") else {}
    pool = address if address.startswith("ray://") else "ray"
    with running_daemon(
        folder, environment=environment, pool=pool, worker_command=" ".join(SCRIPTED), **settings
    ) as daemon:
        yield daemon
