"""A Ray cluster of several nodes on this machine, its faults, and daemons that use it."""

import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil
from support.daemon import DaemonProcess, running_daemon, wait_until
from support.pools import command_line

from inductord.worker.ray_routing import LABEL_PREFIX

# Ray puts sockets below this folder, and their paths are short.
_FOLDER_PREFIX = "ind-ray-"

CONNECTED_S = 240.0
"""A daemon that does not find Ray within 45 s, as on a machine that is very busy, tries again after 30 s. A registry that
starts again there may take as long, with its workers."""


def set_variables() -> None:
    """What clusters of this session start with: a token, which Ray would write into HOME, no step back for its processes,
    which on a busy machine would come after everything else, and no end for its workers when others take the memory."""
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 -- Ray writes it so
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112


_Started = TypeVar("_Started")


def _started(start: Callable[[], _Started]) -> _Started:
    """What ``start`` gives. Ray gives a node 30 s to come up, which a very busy machine may exceed: what is left of such a
    node is ended, and it is tried again, three times in all."""
    for last in (False, False, True):
        before = set(psutil.Process().children())
        try:
            return start()
        except Exception as error:
            for process in set(psutil.Process().children()) - before:
                for each in (*process.children(recursive=True), process):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
                        each.wait(30)
            if last or "timed out during startup" not in str(error):
                raise
    raise AssertionError("the last try returns or raises")


class RayCluster:
    """Nodes of one cluster; the head has no CPUs, as Kubernetes operators set it up. ``nodes``: those that compile, at first
    labelled for the accelerators ``kind 0``, ``kind 1`` and so on."""

    def __init__(self, workers: int, cpus: int, head_arguments: dict[str, Any] | None = None) -> None:
        set_variables()
        from ray.cluster_utils import Cluster

        # Ray notes its newest cluster there, whatever folder the cluster has.
        Path("/tmp/ray").mkdir(exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir="/tmp"))
        head = {
            "num_cpus": 0,
            "temp_dir": str(self.folder),
            "include_dashboard": False,
            "object_store_memory": 100 << 20,
            **(head_arguments or {}),
        }
        self._cluster = _started(lambda: Cluster(initialize_head=True, head_node_args=head))
        self.head = self._cluster.head_node
        kinds = [{f"{LABEL_PREFIX}accelerator": f"kind-{number}"} for number in range(workers)]
        self.nodes = [self.add_node(cpus, labels=labels) for labels in kinds]

    @property
    def address(self) -> str:
        """What ``RAY_ADDRESS`` takes."""
        return str(self._cluster.address)

    @property
    def scraped(self) -> Path:
        """What the head, if it has a dashboard, lists for Prometheus."""
        path = self.folder / "prom_metrics_service_discovery.json"
        wait_until(path.is_file, "Ray's head says what there is to scrape")
        return path.resolve()

    def add_node(self, cpus: int, **arguments: Any) -> Any:
        """One more node."""
        return _started(lambda: self._cluster.add_node(num_cpus=cpus, object_store_memory=100 << 20, **arguments))

    def kill_node(self, node: Any) -> None:
        """A node goes away, with all that runs there."""
        self._cluster.remove_node(node, allow_graceful=False)
        self.nodes = [each for each in self.nodes if each is not node]

    def kill_head(self) -> None:
        """The head goes away, with all that runs there."""
        self.head.kill_all_processes(check_alive=False, allow_graceful=False)

    def anew(self) -> "RayCluster":
        """After the head went away: the other nodes go too, and another cluster comes up at the same address."""
        for node in self.nodes:
            node.kill_all_processes(check_alive=False, allow_graceful=False)
        self.nodes = []
        return RayCluster(workers=1, cpus=2, head_arguments={"gcs_server_port": int(self.address.rpartition(":")[2])})

    @contextlib.contextmanager
    def saying_it_has(self, version: str) -> Iterator[None]:
        """The cluster says that it was started by another version of Ray. Two versions cannot be installed side by side; what
        a daemon's Ray compares is real."""
        from ray._raylet import GcsClient

        where = {"key": b"CLUSTER_METADATA", "namespace": b"cluster"}
        client = GcsClient(address=self.address)
        said = client.internal_kv_get(**where)
        changed = json.dumps(json.loads(said) | {"ray_version": version}).encode()
        client.internal_kv_put(value=changed, overwrite=True, **where)
        try:
            yield
        finally:
            client.internal_kv_put(value=said, overwrite=True, **where)

    def node_of(self, pid: int) -> Any:
        """The node that a process runs on."""
        above = {process.pid for process in psutil.Process(pid).parents()}
        (node,) = (each for each in self.nodes if each.all_processes["raylet"][0].process.pid in above)
        return node

    def registry(self) -> psutil.Process:
        """The process of the registry's actor."""
        (found,) = self._actors("ray::RegistryActor")
        return found

    def _actors(self, name: str) -> list[psutil.Process]:
        found = []
        for raylet in (each.all_processes["raylet"][0].process.pid for each in (self.head, *self.nodes)):
            for child in psutil.Process(raylet).children(recursive=True):
                if " ".join(command_line(child)).startswith(name):
                    found.append(child)
        return found

    def close(self) -> None:
        """End all nodes."""
        for node in (*self.nodes, self.head):
            node.kill_all_processes(check_alive=False, allow_graceful=False)
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def ray_daemon(
    folder: Path, address: str, environment: Mapping[str, str] | None = None, **settings: object
) -> Iterator[DaemonProcess]:
    """A daemon whose pool is the cluster at ``address``, with scripted workers."""
    client = address.startswith("ray://")
    variables = {**(environment or {}), **({} if client else {"RAY_ADDRESS": address})}
    with running_daemon(folder, environment=variables, pool=address if client else "ray", **settings) as daemon:
        yield daemon


def bridge_of(daemon: DaemonProcess) -> psutil.Process:
    """The daemon's process that speaks with Ray."""
    children = psutil.Process(daemon.pid).children()
    (found,) = (child for child in children if "ray_bridge" in " ".join(command_line(child)))
    return found


def until_connected(daemon: DaemonProcess) -> None:
    """Wait until the cluster compiles for it."""
    wait_until(
        lambda: daemon.status().pool.cluster.registry != "",
        lambda: f"Ray compiles; the log:\n{daemon.log()}",
        CONNECTED_S,
    )
