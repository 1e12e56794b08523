"""This process's connection to Ray, and the local Ray that it starts when there is none to connect to.

Blocking; ``ray_pool`` runs it in one thread that lives as long as the connection: Ray's processes end with the thread that
started them, and off the main thread Ray leaves the daemon's signal handlers alone. It ends only what it started.
"""

import logging
import os
import secrets
import socket
from pathlib import Path
from typing import Any

from inductord.compiler.address import AddressError, ensure_private_dir, temporary_dir
from inductord.worker.limits import Machine
from inductord.worker.pool import PoolUnavailable
from inductord.worker.scratch import Scratch

NAMESPACE = "inductord"

_KNOCK_TIMEOUT_S = 5.0

# Ray puts sockets at <folder>/session_<time>_<pid>/sockets/<name>, and a socket's path has at most 107 bytes.
_LONGEST_FOLDER = 107 - len("/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store.0")
_AUTH_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


class RaySession:
    """A connection made by the constructor and ended by ``close``.

    Args:
        address: ``local`` for a Ray of this process's own, else what ``ray.init`` takes.
        machine: what a local Ray may use.
        scratch: where a local Ray keeps its files if sockets fit there.

    Raises:
        PoolUnavailable: Ray is not installed, cannot be started or cannot be reached.
    """

    def __init__(self, address: str, machine: Machine, scratch: Path) -> None:
        self._scratch: Scratch | None = None
        if address == "local":
            _set_token()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError as error:
            raise PoolUnavailable(
                f"Ray is not installed: {error}. Install inductord[ray], or use --pool local"
            ) from error
        self._ray: Any = ray
        # Else it warns that it leaves our signal handlers alone.
        logging.getLogger("ray").setLevel(logging.ERROR)
        if address == "local":
            self._scratch = _session_scratch(scratch)
        what = "a local Ray cannot be started" if address == "local" else f"no Ray answers at {address}"
        try:
            if self._scratch is None:
                _knock(address)
                what = f"the Ray at {address} cannot be used"
            self._connect(address, machine)
        except Exception as error:
            self.close()
            said = " ".join(str(error).split())  # Ray sets what it says of versions in lines
            raise PoolUnavailable(f"{what}: {type(error).__name__}: {said}{_hint(error)}") from error

    def _connect(self, address: str, machine: Machine) -> None:
        if self._scratch is None:
            self._ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
            return
        self._ray.init(
            address,
            namespace=NAMESPACE,
            num_cpus=machine.cpus,
            num_gpus=0,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(self._scratch.path),
        )

    def cpus(self) -> int:
        """CPUs of all nodes."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def close(self) -> None:
        """Disconnect. A local Ray ends, with its folder. Idempotent."""
        if self._scratch is None:
            self._ray.shutdown()
            return
        self._ray.shutdown(wait_for_processes=True)
        scratch, self._scratch = self._scratch, None
        scratch.close()


def _hint(error: BaseException) -> str:
    """What to do about it, where Ray says the reason only in a cause of its error."""
    cause: BaseException | None = error
    while cause is not None:
        if "AuthenticationError" in f"{type(cause).__name__} {cause}":
            return ". The cluster asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
        cause = cause.__cause__
    return ""


def _knock(address: str) -> None:
    """Fail soon where nobody listens: Ray itself would try for half a minute and longer, in a thread that cannot be ended.

    Raises:
        OSError: nobody does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_TIMEOUT_S):
            pass


def _set_token() -> None:
    """A token for a local Ray, which asks for one by default. Without this it writes one into HOME, maybe unwritable."""
    if not any(os.environ.get(name) for name in _AUTH_VARIABLES):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _session_scratch(preferred: Path) -> Scratch:
    """A folder for a local Ray in the first place where its sockets fit."""
    name = f"inductord-{os.geteuid()}"
    tried = []
    for parent in (preferred, temporary_dir() / "ray", Path("/tmp") / name / "ray", Path("/dev/shm") / name / "ray"):
        if len(os.fsencode(parent)) + len("/pool-12345678") > _LONGEST_FOLDER:
            tried.append(f"{parent} (too long for Ray's sockets)")
            continue
        try:
            if parent != preferred:
                ensure_private_dir(parent)
            return Scratch(parent)
        except (OSError, AddressError) as error:
            tried.append(f"{parent} ({error})")
    raise PoolUnavailable(f"a local Ray needs a folder for its files. Tried: {'; '.join(tried)}")
