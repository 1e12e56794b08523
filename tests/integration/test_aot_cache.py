"""A second job on empty caches of its own: neither AOTAutograd nor Inductor works again, and no compiler is needed."""

from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.training import Ended, python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

CACHE, PROFILE = "autograd-experimental", "dynamo-pgo"


def remote(ended: Ended) -> dict[str, int]:
    (report,) = ended.reports
    return {name: int(count) for name, count in report.get("remote_caches", {}).items()}


def test_a_second_job_does_not_trace_again(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    graphs, results = 3, 2  # one of training, which is two graphs, and one of inference
    command, nowhere = python("again.py"), str(tmp_path / "nowhere")
    first = train(tmp_path / "first", command, real_daemon.address)
    assert first.result["aot"] == {"autograd_cache_miss": results, "autograd_cache_saved": results}
    assert (first.fallbacks, first.count("led")) == ({}, graphs), first.err
    assert remote(first) == {f"{CACHE} miss": results, f"{CACHE} kept": results}, first.err
    compiles = real_daemon.status().totals.compiles

    second = train(tmp_path / "second", command, real_daemon.address, PATH=nowhere)
    assert second.result["numbers"] == first.result["numbers"]
    assert (second.result["aot"], second.result["fx_misses"]) == ({"autograd_cache_hit": results}, 0), second.err
    assert (second.fallbacks, second.count("hits"), second.keys) == ({}, graphs, first.keys)
    assert remote(second) == {f"{CACHE} hit": results}

    # A job that lowers operators in its own way has no use for what others made, and they have none for its.
    third = train(tmp_path / "third", [*command, "--own-lowering"], real_daemon.address)
    assert third.result["numbers"][0], third.err
    assert (third.fallbacks, third.count("requests")) == ({"not_cacheable": graphs}, 0), third.err
    assert remote(third) == {f"{CACHE} miss": results, f"{CACHE} skipped": results}
    assert real_daemon.status().totals.compiles == compiles


def test_a_second_job_knows_which_sizes_change(real_daemon: DaemonProcess, tmp_path: Path) -> None:
    """The first job learns at its second batch that the size of batches changes. The second job begins with that profile: it
    traces nothing for one size, and compiles nothing, though it meets another size first."""
    command, nowhere = python("again.py", "--growing"), str(tmp_path / "nowhere")
    asked = {"TORCH_COMPILE_JOB_ID": "growing", "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO": "1"}
    # A variable that changes the default of a setting, which workers do not have.
    asked["TORCHINDUCTOR_COORDINATE_DESCENT_RADIUS"] = "2"
    first = train(tmp_path / "first", command, real_daemon.address, **asked)
    assert first.result["traced"] == 3  # for one size, for all, and without gradients
    assert remote(first)[f"{PROFILE} miss"] == 1
    compiles = real_daemon.status().totals.compiles

    second = train(tmp_path / "second", command, real_daemon.address, PATH=nowhere, **asked)
    assert (second.result["traced"], second.result["aot"]) == (2, {"autograd_cache_hit": 2}), second.err
    assert remote(second)[f"{PROFILE} hit"] == 1
    assert (second.fallbacks, second.count("hits"), second.result["fx_misses"]) == ({}, 3, 0)
    assert second.keys < first.keys
    assert real_daemon.status().totals.compiles == compiles
    # Of the second batch and of inference; the first batch went through another graph.
    (_, loss), _, inferred = second.result["numbers"]
    assert ([loss], inferred) == (first.result["numbers"][0][1:], first.result["numbers"][2])


@pytest.mark.parametrize(
    "kinds", [("composition", "gradient", "subclass"), ("decomposed",), ("pattern",), ("above_autograd",)], ids=" ".join
)
def test_code_of_the_job_is_traced_in_each_process(
    real_daemon: DaemonProcess, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    """PyTorch's keys have the names of such code only. Its author may have changed it since the first job."""
    first, second, plain = (
        train(tmp_path / name, python("edited.py", factor, *kinds), address)
        for name, factor, address in (
            ("first", "2", real_daemon.address),
            ("second", "3", real_daemon.address),
            ("plain", "3", None),
        )
    )
    assert second.result == plain.result, second.err
    assert not set(second.result.items()) & set(first.result.items())
    assert (remote(second), second.fallbacks) == ({f"{CACHE} skipped": len(kinds)}, {})
