"""A second job on empty caches of its own: neither AOTAutograd nor Inductor works again, and no compiler is needed."""

from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.training import python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

GRAPHS = 3
RESULTS = 2
"""Of AOTAutograd: training, inference."""
CACHE = "autograd-experimental"


def remote(ended: object) -> dict[str, int]:
    (report,) = ended.reports  # type: ignore[attr-defined]
    return {name: int(count) for name, count in report.get("remote_caches", {}).items()}


@pytest.mark.parametrize("more", [(), ("--dynamic",)], ids=["static", "dynamic"])
def test_a_second_job_does_not_trace_again(real_daemon: DaemonProcess, tmp_path: Path, more: tuple[str, ...]) -> None:
    command, nowhere = python("again.py", *more), str(tmp_path / "nowhere")
    first = train(tmp_path / "first", command, real_daemon.address)
    assert first.result["aot"] == {"autograd_cache_miss": RESULTS, "autograd_cache_saved": RESULTS}
    assert (first.fallbacks, first.count("led")) == ({}, GRAPHS), first.err
    assert remote(first) == {f"{CACHE} miss": RESULTS, f"{CACHE} kept": RESULTS}, first.err
    compiles = real_daemon.status().totals.compiles

    second = train(tmp_path / "second", command, real_daemon.address, PATH=nowhere)
    assert second.result["numbers"] == first.result["numbers"]
    assert (second.result["aot"], second.result["fx_misses"]) == ({"autograd_cache_hit": RESULTS}, 0), second.err
    assert (second.fallbacks, second.count("hits"), second.keys) == ({}, GRAPHS, first.keys)
    assert remote(second) == {f"{CACHE} hit": RESULTS}
    assert real_daemon.status().totals.compiles == compiles
