"""A real daemon process on a real socket, and the check that it leaves nothing behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import grpc
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc
from support.pools import DEADLINE_S, SCRIPTED, alive

from inductord.v1 import admin_pb2, admin_pb2_grpc

# Each test has its own daemon on its own path; sharing connections across tests would carry backoff from one to the next.
CHANNEL_OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
COMMAND = (sys.executable, "-m", "inductord.daemon")


def wait_until(condition: Callable[[], bool], what: str | Callable[[], str], seconds: float = DEADLINE_S) -> None:
    """Wait for a condition, as long as a slow machine may need. ``what`` it is; a function when only the end tells."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never: {what() if callable(what) else what}"
        time.sleep(0.01)


def status_at(address: str) -> admin_pb2.Status:
    """What the daemon of this address says to ``GetStatus``."""
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        status: admin_pb2.Status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S).status
        return status


_prepared: list[Path] = []


def share_prepared(folder: Path) -> None:
    """From now on daemons keep there what C++ compilers prepared for their workers, as daemons of one scratch folder do. It
    saves each real worker 20 CPU-seconds."""
    _prepared[:] = [folder]


class DaemonProcess:
    """``python -m inductord.daemon`` with its own store, scratch folder and socket under ``folder``.

    ``settings``: fields of ``DaemonConfig`` by name, as text. ``environment``: further variables; None removes one. Workers
    are scripted ones (``tests/workers/scripted.py``) unless ``worker_command`` says otherwise. ``command``: what is run in
    place of it; the process that is started has to become the daemon.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object],
        environment: Mapping[str, str | None] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._command = command
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.store = folder / "store"
        self.scratch = folder / "scratch"
        if _prepared and not self.scratch.exists():
            self.scratch.mkdir(mode=0o700)
            (self.scratch / "prepared").symlink_to(_prepared[0])
        # Socket paths are short; pytest's folders are not.
        self.run_dir = Path(tempfile.mkdtemp(prefix="inductord-test-"))
        self.address = f"unix:{self.run_dir}/d.sock"
        self.log_path = folder / "daemon.log"
        chosen: dict[str, object] = {
            "address": self.address,
            "store_path": self.store,
            "scratch": self.scratch,
            "max_workers": 2,
            "heartbeat_seconds": 0.2,
            # Should the test's own process be killed, this ends by itself.
            "idle_exit_seconds": 600,
            "worker_command": " ".join(SCRIPTED),
            **settings,
        }
        env: dict[str, str | None] = {
            **{name: value for name, value in os.environ.items() if not name.startswith("INDUCTORD")},
            "XDG_CONFIG_HOME": str(folder / "no-config"),
            **{f"INDUCTORD_{name.upper()}": str(value) for name, value in chosen.items()},
            **(environment or {}),
        }
        self._env = {name: value for name, value in env.items() if value is not None}
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: dict[int, psutil.Process] = {}

    # Life

    def spawn(self) -> "DaemonProcess":
        """Start it without waiting."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def start(self) -> "DaemonProcess":
        """Start it and wait until it answers."""
        self.spawn()
        wait_until(self.healthy, lambda: f"the daemon answers; its log:\n{self.log()}")
        return self

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The running process."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def pid(self) -> int:
        """Of the daemon."""
        return self.process.pid

    def wait(self) -> int:
        """Its exit code, once it ended."""
        return self.process.wait(DEADLINE_S)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it by a signal and return its exit code."""
        self.note_children()
        self.process.send_signal(number)
        return self.wait()

    def stop(self) -> int:
        """End it as an init system does, and return its exit code."""
        return self.kill(signal.SIGTERM)

    def close(self) -> None:
        """End it by force if it still runs, and remove its socket's folder."""
        if self._process is not None and self._process.poll() is None:
            self.note_children()
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(DEADLINE_S)
        for child in self._seen.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        shutil.rmtree(self.run_dir)

    # Looks

    def log(self) -> str:
        """All that it wrote so far."""
        return self.log_path.read_text()

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """A blocking channel."""
        with grpc.insecure_channel(self.address, options=CHANNEL_OPTIONS) as channel:
            yield channel

    def healthy(self) -> bool:
        """Whether it answers; fails at once when it ended."""
        assert self.process.poll() is None, f"the daemon ended with {self.process.returncode}:\n{self.log()}"
        try:
            with self.channel() as channel:
                answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        except grpc.RpcError:
            return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING

    def status(self) -> admin_pb2.Status:
        """What ``GetStatus`` says."""
        return status_at(self.address)

    def entry(self, key: str) -> admin_pb2.Entry:
        """What ``GetEntry`` says of a key; raises ``grpc.RpcError`` where nothing is stored."""
        with self.channel() as channel:
            request = admin_pb2.GetEntryRequest(key=key)
            found: admin_pb2.Entry = (
                admin_pb2_grpc.AdminServiceStub(channel).GetEntry(request, timeout=DEADLINE_S).entry
            )
            return found

    def note_children(self) -> None:
        """Remember the processes below it, for the check that they end."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                self._seen[child.pid] = child

    def check_clean(self) -> None:
        """After a stop: no worker, no socket, no worker's folder and no half-written file is left."""
        wait_until(lambda: not [pid for pid in self._seen if alive(pid)], "no worker is left")
        assert [path.name for path in self.run_dir.iterdir()] in ([], ["d.sock.lock"])
        if self.scratch.exists():
            assert {path.name for path in self.scratch.iterdir()} <= {"prepared"}
        assert not list((self.store / "tmp").glob("*"))


@contextlib.contextmanager
def running_daemon(
    folder: Path,
    environment: Mapping[str, str | None] | None = None,
    command: Sequence[str] = COMMAND,
    **settings: object,
) -> Iterator[DaemonProcess]:
    """A daemon that answers. If it still runs at the end, it is stopped and must leave nothing behind."""
    daemon = DaemonProcess(folder, settings, environment, command)
    try:
        daemon.start()
        yield daemon
        if daemon.process.poll() is None:
            assert daemon.stop() == 0, daemon.log()
            daemon.check_clean()
    finally:
        daemon.close()
