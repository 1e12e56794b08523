"""A container as a container engine would make it of a pod's description, of this machine's programs: its own view of files
with a read-only root, the volumes that the pod mounts, its user, no capability, no variables but its own and the image's. Needs
root.

The programs are those of the running interpreter, bound to the places that they have outside.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.manifests import K8S, REPO, Object
from support.needs import needs, needs_program
from support.pools import DEADLINE_S

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib64")


class Container:
    """The container ``spec`` of a pod. ``folder``: where its root and volumes are put together.

    Args:
        pod: the pod's spec.
        spec: one of its containers.
        config: ConfigMaps by name.
        secrets: content of Secrets: file name to content, by name of the Secret.
        network: what runs a command in the pod's network, from ``own_network``.
        programs: folder of the programs, first in PATH; the running interpreter's when None.
    """

    def __init__(
        self,
        folder: Path,
        pod: Object,
        spec: Object,
        config: Mapping[str, Mapping[str, str]],
        secrets: Mapping[str, Mapping[str, str]],
        network: Sequence[str],
        programs: Path | None = None,
    ) -> None:
        needs(os.geteuid() == 0, "root, to make a container's view of files")
        needs_program("setpriv", "util-linux")
        # Else it would be the first process there is, with orphans to bury; here it is not.
        assert pod["shareProcessNamespace"] is True
        self.root = folder / "root"
        self.volumes = folder / "volumes"
        self.log_path = folder / "container.log"
        self._pod, self.spec = pod, spec
        self._secrets = secrets
        self._network = network
        self._programs = Path(sys.prefix) / "bin" if programs is None else programs
        variables: dict[str, str] = {}
        for source in spec.get("envFrom", []):
            if "configMapRef" in source:
                variables |= config[source["configMapRef"]["name"]]
        self._env = {"HOME": "/"} | _variables_of_the_image() | {"PATH": f"{self._programs}:/usr/bin:/bin"} | variables
        self._process: subprocess.Popen[bytes] | None = None
        self._make_volumes()

    @property
    def env(self) -> Mapping[str, str]:
        """The variables inside."""
        return self._env

    @property
    def grace(self) -> float:
        """Seconds that the pod has to end."""
        return float(self._pod["terminationGracePeriodSeconds"])

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """What the container runs."""
        assert self._process is not None, "not started"
        return self._process

    def path(self, inside: str) -> Path:
        """Where a file of a volume lies outside."""
        for mount in self.spec["volumeMounts"]:
            if Path(inside).is_relative_to(mount["mountPath"]):
                return self.volumes / mount["name"] / Path(inside).relative_to(mount["mountPath"])
        raise AssertionError(f"{inside} is in no volume")

    def start(self) -> None:
        """Run it."""
        program = [self._programs / "inductord", *self.spec["args"]]
        steps = "\n".join(self._mounting())
        line = shlex.join(map(str, ["/usr/sbin/chroot", self.root, *self._identity(), *program]))
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._network,
                    "unshare",
                    "--mount",
                    "--propagation",
                    "private",
                    "sh",
                    "-ec",
                    f"{steps}\nexec {line}",
                ],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def exec(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in it, as ``kubectl exec`` and probes do."""
        assert command[0] == "inductord"
        inside = [*self._identity(), str(self._programs / command[0]), *command[1:]]
        return subprocess.run(
            ["nsenter", "--target", str(self.process.pid), "--mount", "--net", "--root", "--wdns=/tmp", *inside],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def ready(self) -> bool:
        """Whether the readiness probe succeeds; fails at once when the container has ended."""
        assert self.process.poll() is None, self.log_path.read_text()
        return self.exec(*self.spec["readinessProbe"]["exec"]["command"]).returncode == 0

    def terminate(self) -> int:
        """End it as a kubelet does, within the pod's grace period. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self.grace)

    def close(self) -> None:
        """End it by force if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(DEADLINE_S)

    def _identity(self) -> Sequence[str]:
        pod, own = self._pod["securityContext"], self.spec["securityContext"]
        user, group = str(pod["runAsUser"]), str(pod["runAsGroup"])
        assert own["capabilities"]["drop"] == ["ALL"]
        assert own["allowPrivilegeEscalation"] is False
        switches = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        return ["setpriv", "--reuid", user, "--regid", group, "--groups", str(pod["fsGroup"]), *switches]

    def _make_volumes(self) -> None:
        group = self._pod["securityContext"]["fsGroup"]
        by_name: dict[str, Any] = {each["name"]: each for each in self._pod["volumes"]}
        for mount in self.spec["volumeMounts"]:
            volume, folder = by_name[mount["name"]], self.volumes / mount["name"]
            folder.mkdir(parents=True)
            if "secret" in volume:
                for name, content in self._secrets[volume["secret"]["secretName"]].items():
                    (folder / name).write_text(content)
                    (folder / name).chmod(volume["secret"]["defaultMode"])
                    os.chown(folder / name, 0, group)
            # fsGroup, or what the init container does for a folder of the node.
            os.chown(folder, self._pod["securityContext"]["runAsUser"] if "hostPath" in volume else 0, group)
            folder.chmod(0o750 if "hostPath" in volume else 0o2770)

    def _mounting(self) -> Iterator[str]:
        """Shell commands that put the root together, read-only but for the volumes."""

        def bind(source: Path, target: Path, *options: str) -> Iterator[str]:
            yield shlex.join(["mkdir", "-p", str(target)])
            yield shlex.join(["mount", "--rbind", str(source), str(target)])
            if options:
                yield shlex.join(["mount", "-o", ",".join(("remount", "bind", *options)), str(target)])

        root = self.root
        yield shlex.join(["mkdir", "-p", str(root)])
        yield shlex.join(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "none", str(root)])
        for name in _SYSTEM:
            place = Path("/") / name
            if place.is_symlink():
                yield shlex.join(["ln", "-s", os.readlink(place), str(root / name)])
            elif place.is_dir():
                yield from bind(place, root / name, "ro")
        yield shlex.join(["cp", "-a", "/etc", str(root / "etc")])
        yield from bind(Path("/dev"), root / "dev")
        yield shlex.join(["mount", "-t", "tmpfs", "-o", "size=64m,mode=1777", "none", str(root / "dev" / "shm")])
        yield from bind(Path("/proc"), root / "proc")
        for mount in self.spec["volumeMounts"]:
            target = root / mount["mountPath"].lstrip("/")
            yield from bind(self.volumes / mount["name"], target, *(["ro"] if mount.get("readOnly") else []))
        # After the volumes: a checkout may lie under /tmp.
        for place in sorted(_programs() | {self._programs.parent}):
            yield from bind(place, root / place.relative_to("/"), "ro")
        assert self.spec["securityContext"]["readOnlyRootFilesystem"] is True
        yield shlex.join(["mount", "-o", "remount,bind,ro", str(root)])


def _variables_of_the_image() -> dict[str, str]:
    """What the Dockerfile sets, but for PATH."""
    text = (K8S / "image" / "Dockerfile").read_text().replace("\\\n", " ")
    words = [word for line in text.splitlines() if line.startswith("ENV ") for word in shlex.split(line)[1:]]
    return {name: value for name, _, value in (word.partition("=") for word in words) if name != "PATH"}


def _programs() -> set[Path]:
    """Folders outside of the system's that the interpreter reads, without those inside of others."""
    wanted = {Path(sys.prefix), Path(sys.base_prefix), REPO, *(Path(each) for each in sys.path if Path(each).is_dir())}
    outside = {each.resolve() for each in wanted if not each.resolve().is_relative_to("/usr")}
    return {each for each in outside if not any(each != other and each.is_relative_to(other) for other in outside)}


@contextlib.contextmanager
def own_network() -> Iterator[Sequence[str]]:
    """A network with nothing but its loopback, in which every port is free. Gives the beginning of commands that run in it."""
    needs_program("ip", "iproute2")
    hold = ["unshare", "--net", "sh", "-ec", "ip link set lo up; echo up; exec sleep infinity"]
    with subprocess.Popen(hold, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "up\n"
            yield ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        finally:
            holder.kill()


@contextlib.contextmanager
def running(container: Container) -> Iterator[Container]:
    """It, started; ended in any case."""
    try:
        container.start()
        yield container
    finally:
        container.close()
