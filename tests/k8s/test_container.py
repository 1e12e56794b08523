"""The DaemonSet's container, run here as a node would run it: its command, user, variables, files and probes. It serves jobs
through each way in, and a rolling restart costs a job nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from support.container import Container, running
from support.daemon import wait_until
from support.identity import as_user
from support.manifests import K8S, REPO, objects, the
from support.mounts import needs_mounts
from support.training import NO_GRAPH_CACHE, Ended, Running, environment, python, train

pytestmark = [pytest.mark.k8s, pytest.mark.timeout(900)]

GRAPHS = 2
"""Of the job: forward and backward."""
GROUP = 65532
FREE = {"INDUCTORD_LISTEN": "127.0.0.1:0", "INDUCTORD_METRICS_ADDRESS": "127.0.0.1:0"}
"""Ports that nobody has; those of the manifests may be taken here."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, for sockets, that every user may go through."""
    needs_mounts()
    folder = Path(tempfile.mkdtemp(prefix="inductord-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def described(folder: Path, token_file: str, programs: Path | None = None, **overrides: str) -> Container:
    pod = the("overlays/dev", "DaemonSet")["spec"]["template"]["spec"]
    (spec,) = pod["containers"]
    config = {each["metadata"]["name"]: each["data"] for each in objects("overlays/dev") if each["kind"] == "ConfigMap"}
    return Container(
        folder, pod, spec, config, {"inductord-tokens": {"tokens": token_file}}, FREE | overrides, programs
    )


def new_token(file: Path) -> str:
    """What an administrator does by hand before applying the manifests."""
    command = [str(Path(sys.prefix) / "bin" / "inductord"), "token", "new", "--tenant", "training", "--file", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


def start(folder: Path, address: str, **more: str) -> Running:
    """A training pod: a user of its own, in the socket's group, with nothing else."""
    env = environment(folder, address, **NO_GRAPH_CACHE, **more)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 1000, 1000)
    return Running(as_user(1000, python("tiny.py"), GROUP), env)


def counts(ended: Ended) -> Mapping[str, int]:
    return {name: ended.count(name) for name in ("led", "joined", "hits")} | ended.fallbacks


def test_a_node_of_the_cluster(folder: Path, tmp_path: Path) -> None:
    plain = train(tmp_path / "plain", python("tiny.py"), None, **NO_GRAPH_CACHE).result
    tokens = tmp_path / "tokens"
    token = new_token(tokens)
    container = described(folder, tokens.read_text())
    socket = f"unix:{container.path('/run/inductord/inductord.sock')}"
    with running(container):
        wait_until(container.ready, "the pod is ready")
        # It is what the manifest says: its user, no capability, a root that nobody can write.
        status = Path(f"/proc/{container.process.pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(fields["Uid"].split()) == {"65532"}
        assert (fields["CapEff"], fields["CapBnd"], fields["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
        assert os.statvfs(f"/proc/{container.process.pid}/root").f_flag & os.ST_RDONLY
        doctor = json.loads(container.exec("inductord", "doctor", "--json").stdout)
        assert [each for each in doctor["findings"] if each["level"] == "fail"] == []

        # By socket, as another user of its group.
        first = start(folder / "first", socket).finish()
        assert first.result == plain
        assert counts(first) == {"led": GRAPHS, "joined": 0, "hits": 0}
        # By TCP, with a token: a tenant of its own, so nothing of the owner's is found.
        listen = "tcp://" + json.loads(container.exec("inductord", "status", "--json").stdout)["listen"]
        by_tcp = start(folder / "tcp", listen, INDUCTORD_TOKEN=token, INDUCTORD_INSECURE="1").finish()
        assert by_tcp.result == plain
        assert counts(by_tcp) == {"led": GRAPHS, "joined": 0, "hits": 0}
        refused = start(folder / "refused", listen, INDUCTORD_TOKEN="wrong", INDUCTORD_INSECURE="1").finish()
        assert refused.result == plain
        assert refused.fallbacks == {"unauthenticated": GRAPHS}

        # A rolling restart in the middle of a job: the old pod ends in time, the new one comes up on the same folders.
        job = start(folder / "restarted", socket)
        try:
            wait_until(lambda: "tiny.py" in " ".join(psutil.Process(job.process.pid).cmdline()), "the rank runs")
            assert container.terminate() == 0  # within the grace period
            container.start()
            wait_until(container.ready, "the new pod is ready")
        finally:
            restarted = job.finish()
        assert restarted.result == plain
        assert sum(counts(restarted).values()) == GRAPHS
        # What the old pod compiled is there.
        last = start(folder / "last", socket).finish()
        assert last.result == plain
        assert counts(last) == {"led": 0, "joined": 0, "hits": GRAPHS}
        assert container.terminate() == 0


def test_the_slim_image_serves_without_torch(folder: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "opt" / "inductord"
    install = [
        "sh",
        str(K8S / "image" / "install.sh"),
        "slim",
        str(prefix),
        sys.executable,
        str(REPO),
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
    with running(described(folder, tokens.read_text(), prefix / "bin")) as container:
        wait_until(container.ready, "the pod is ready")
        assert container.exec("inductord", "status", "--json").returncode == 0
        assert container.terminate() == 0
