"""The DaemonSet's container, run here as a node would run it: its command, user, variables, ports, files and probes. It serves
jobs through each way in, and a rolling restart costs a job nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from support.container import Container, own_network, running
from support.daemon import status_at, wait_until
from support.identity import as_user
from support.jobs import GRAPHS, Tiny
from support.manifests import K8S, REPO, Object, containers, objects, pod_templates, the
from support.mounts import needs_mounts
from support.training import NO_GRAPH_CACHE, Ended, Running, environment, python

pytestmark = [pytest.mark.k8s, pytest.mark.timeout(900)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, for sockets, that every user may go through."""
    needs_mounts()
    folder = Path(tempfile.mkdtemp(prefix="inductord-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def network() -> Iterator[Sequence[str]]:
    """Of the node: the ports of the manifests are free there, and jobs reach them."""
    needs_mounts()
    with own_network() as within:
        yield within


def described(folder: Path, network: Sequence[str], token_file: str, programs: Path | None = None) -> Container:
    pod = the("overlays/dev", "DaemonSet")["spec"]["template"]["spec"]
    (spec,) = pod["containers"]
    config = {each["metadata"]["name"]: each["data"] for each in objects("overlays/dev") if each["kind"] == "ConfigMap"}
    return Container(folder, pod, spec, config, {"inductord-tokens": {"tokens": token_file}}, network, programs)


def new_token(file: Path) -> str:
    """What an administrator does by hand before applying the manifests."""
    command = [str(Path(sys.prefix) / "bin" / "inductord"), "token", "new", "--tenant", "training", "--file", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


class Node:
    """Training pods as the examples describe them, on the node of a container."""

    def __init__(self, folder: Path, network: Sequence[str], container: Container, tiny: Tiny) -> None:
        self.folder, self.network, self.container, self.tiny = folder, network, container, tiny

    def start(self, way: str, name: str, token: str = "") -> Running:
        """The plain Job of a way in, under its user and groups, with its variables; its name is the job's. Where the socket's
        folder is mounted it is the one outside."""
        (example,) = objects(f"examples/ways/{way}/job")
        ((_, template),) = pod_templates(example)
        (trainer,) = containers(template)
        given = {each["name"]: _value(each, name, token) for each in trainer["env"]}
        where = given["INDUCTORD_ADDRESS"].replace("$(HOST_IP)", "127.0.0.1")
        if way == "socket":
            where = f"unix:{self.container.path(where.removeprefix('unix:'))}"
        env = environment(self.folder / name, None, **given, **NO_GRAPH_CACHE, INDUCTORD_REGIONS="off")
        env["INDUCTORD_ADDRESS"] = where
        shutil.copytree(self.tiny.cache, env["TORCHINDUCTOR_CACHE_DIR"], dirs_exist_ok=True)
        context = template["spec"]["securityContext"]
        user = context["runAsUser"]
        for path in [self.folder / name, *(self.folder / name).rglob("*")]:
            os.chown(path, user, user)
        command = as_user(user, python("tiny.py"), *context.get("supplementalGroups", []))
        return Running([*self.network, *command], env)

    def train(self, way: str, name: str, token: str = "") -> Mapping[str, int]:
        """The same to its end, which is that of plain Inductor. How its graphs were served, see ``counts``."""
        return self.counts(self.start(way, name, token).finish())

    def read(self, url: str) -> str:
        """What a client on the network finds there."""
        program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
        command = [*self.network, sys.executable, "-c", program, url]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def counts(self, ended: Ended) -> Mapping[str, int]:
        """Graphs of a job that ended well, by how they were served or why the rank compiled them."""
        assert ended.result["losses"] == self.tiny.losses
        return {name: ended.count(name) for name in ("led", "joined", "hits")} | ended.fallbacks


def _value(variable: Object, job: str, token: str) -> str:
    """Of a variable in an example, as Kubernetes would fill it in."""
    source = variable.get("valueFrom", {})
    if "secretKeyRef" in source:
        return token
    if "fieldRef" in source:
        return "127.0.0.1" if source["fieldRef"]["fieldPath"] == "status.hostIP" else job
    return str(variable["value"])


def test_a_node_of_the_cluster(folder: Path, tmp_path: Path, network: Sequence[str], tiny: Tiny) -> None:
    tokens = tmp_path / "tokens"
    token = new_token(tokens)
    container = described(folder, network, tokens.read_text())
    node = Node(folder, network, container, tiny)
    with running(container):
        wait_until(container.ready, "the pod is ready")
        # It is what the manifest says: its user, no capability, a root that nobody can write.
        status = Path(f"/proc/{container.process.pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(fields["Uid"].split()) == {"65532"}
        assert (fields["CapEff"], fields["CapBnd"], fields["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
        assert os.statvfs(f"/proc/{container.process.pid}/root").f_flag & os.ST_RDONLY
        doctor = json.loads(container.exec("inductord", "doctor", "--json").stdout)
        assert [each for each in doctor["findings"] if each["level"] != "ok"] == []
        (monitored,) = the("overlays/prod", "PodMonitor")["spec"]["podMetricsEndpoints"]
        ports = {each["name"]: each["containerPort"] for each in container.spec["ports"]}
        metrics = node.read(f"http://127.0.0.1:{ports[monitored['port']]}{monitored['path']}")
        assert "# TYPE inductord_compile_requests_total counter" in metrics

        # By socket, as another user of its group.
        assert node.train("socket", "first") == {"led": GRAPHS, "joined": 0, "hits": 0}
        # By port, with a token: a tenant of its own, so nothing of the owner's is found and it is compiled again. A rolling
        # restart comes meanwhile: the old pod ends in time, and a new one comes up on the same folders.
        job = node.start("hostport", "restarted", token)
        try:
            socket = f"unix:{container.path('/run/inductord/inductord.sock')}"
            job.until(
                lambda: any(each.job == "training/restarted" and each.compiles for each in status_at(socket).jobs),
                "a compile",
            )
            assert container.terminate() == 0  # within the grace period
            container.start()
            wait_until(container.ready, "the new pod is ready")
        finally:
            ended = job.finish()
        restarted = node.counts(ended)
        assert sum(restarted.values()) == GRAPHS
        assert "unauthenticated" not in restarted
        assert node.train("hostport", "refused", "wrong") == {
            "led": 0,
            "joined": 0,
            "hits": 0,
            "unauthenticated": GRAPHS,
        }
        # What was compiled before is there.
        assert node.train("socket", "last") == {"led": 0, "joined": 0, "hits": GRAPHS}
        assert container.terminate() == 0


def test_the_slim_image_serves_without_torch(folder: Path, tmp_path: Path, network: Sequence[str]) -> None:
    prefix = tmp_path / "opt" / "inductord"
    install = [
        "sh",
        str(K8S / "image" / "install.sh"),
        "slim",
        str(prefix),
        sys.executable,
        str(REPO),
        "",
        "daemon",
    ]  # Ray takes long to install
    done = subprocess.run(
        install, capture_output=True, text=True, check=False, env=os.environ | {"PIP_NO_CACHE_DIR": "0"}
    )
    assert done.returncode == 0, done.stderr
    for path in (prefix, *prefix.parents):
        if path.stat().st_uid == os.geteuid() and path.is_relative_to(tmp_path.parent):
            path.chmod(path.stat().st_mode | 0o055)
    has = [prefix / "bin" / "python", "-c", "import grpc, click; import torch"]
    assert "No module named 'torch'" in subprocess.run(has, capture_output=True, text=True, check=False).stderr
    tokens = tmp_path / "tokens"
    new_token(tokens)
    with running(described(folder, network, tokens.read_text(), prefix / "bin")) as container:
        wait_until(container.ready, "the pod is ready")
        assert container.exec("inductord", "status", "--json").returncode == 0
        assert container.terminate() == 0
