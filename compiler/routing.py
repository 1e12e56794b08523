"""Which graphs of this process go through the daemon: all (the environment asked), or those of ``backend="inductord"``."""

import contextlib
import contextvars
import functools
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

import torch

from inductord.compiler import adapter
from inductord.compiler.adapter.seam import DynamoCall
from inductord.compiler.client import Client
from inductord.compiler.reasons import Fallback
from inductord.compiler.reporter import Reporter
from inductord.compiler.settings import SettingsError, from_environment
from inductord.compiler.telemetry import Telemetry

log = logging.getLogger("inductord")

Whole = Callable[[], Any]
Regions = Callable[[DynamoCall, Whole, str], Any]

_asked: contextvars.ContextVar[bool] = contextvars.ContextVar("inductord_asked", default=False)
_everything = False
_regions: Regions | None = None
_wanted = "off"
_lock = threading.Lock()


@functools.cache
def _ready() -> bool:
    """Set the seam, once. False when this process must stay with plain Inductor; the reason is logged and counted.

    Never raises: it runs while ``import torch._inductor`` of an unsuspecting script is under way.
    """
    global _regions, _wanted
    with _lock:
        try:
            settings = from_environment()
        except SettingsError as error:
            log.error("inductord is off in this process: %s", error)
            return False
        telemetry = Telemetry(settings)
        telemetry.write_at_exit()
        if not adapter.supported(torch.__version__):
            low, high = (".".join(map(str, version)) for version in adapter.SUPPORTED)
            telemetry.fell_back(
                Fallback.UNSUPPORTED_TORCH,
                f"torch {torch.__version__} is not in the range {low} <= torch < {high} that this release was made for",
                "every graph of this process",
            )
            return False
        try:
            from inductord.compiler.adapter import (
                accounting,
                frames,
                padding,
                remote_cache,
                seam,
                shared_objects,
                triton_target,
                tuned,
            )
            from inductord.compiler.aot_cache import AotCache
            from inductord.compiler.offload import Offload
            from inductord.compiler.regions.door import Regions
            from inductord.compiler.regions.memory import Memory
            from inductord.compiler.tuning import Tuner

            account = accounting.Accounting().read
            account()  # what it lacks of this torch should show now, not while the job trains
            telemetry.use_account(account)
            client = Client(settings.address)
            reporter = Reporter(client, telemetry)
            reporter.at_exit()
            cache = AotCache(settings, client, telemetry, lambda: _everything)
            offload = Offload(settings, client, telemetry, reporter, cache.came)
            seam.install(functools.partial(_route, offload))
            seam.install_entry(_enter)
            shared_objects.install()
            frames.watch(offload.frame_traced)
            if settings.enabled:
                remote_cache.install(cache)
            if torch.version.cuda is not None and settings.enabled:
                choose = Tuner(client, telemetry.requester).choose
                tuned.install(choose)
                padding.install(choose)
                triton_target.install()
        except (ImportError, AttributeError) as error:
            telemetry.fell_back(
                Fallback.UNSUPPORTED_TORCH,
                f"torch {torch.__version__} lacks what the adapter needs: {error}",
                "every graph of this process",
            )
            return False
        if settings.enabled:
            memory = Memory(cache, lambda: _everything and remote_cache.asked())
            _regions, _wanted = Regions(telemetry, memory), settings.regions
        return True


def _enter(call: DynamoCall, whole: Whole) -> Any:
    if not _everything:
        return whole()
    from inductord.compiler.adapter import traced_code

    with traced_code.judged(call.gm, call.example_inputs):
        return enter(call, whole, None)


def enter(call: DynamoCall, whole: Whole, wanted: str | None) -> Any:
    """Compile a graph of Dynamo in pieces or whole. ``wanted``: one of ``settings.REGIONS``, None for what the environment
    says."""
    if not _ready() or _regions is None:
        return whole()
    return _regions(call, whole, wanted or _wanted)


def _route(offload: Callable[..., Any], call: Any, in_process: Callable[[], Any]) -> Any:
    if _everything or _asked.get():
        return offload(call, in_process)
    return in_process()


def route_everything() -> None:
    """From now on every graph that Inductor compiles in this process goes through the daemon."""
    global _everything
    if _ready():
        _everything = True


@contextlib.contextmanager
def asked() -> Generator[None]:
    """Graphs compiled inside go through the daemon."""
    _ready()
    token = _asked.set(True)
    try:
        yield
    finally:
        _asked.reset(token)
