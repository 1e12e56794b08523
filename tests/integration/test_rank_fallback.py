"""Whatever breaks on the way of a real graph ends in the compile that plain Inductor would have done, with the reason counted.

What daemons and workers do wrong is for the chaos tests; here the graph or the process is what stands in the way.
"""

import json
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.training import python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

REASONS = {
    "not serialisable": "serialize_failed",
    "whole": "artifact_corrupt",  # scripted workers reply with bytes that are no artifact
    "unreadable": "key_failed",
    "no key": "key_failed",
    "another device": "device_unsupported",
}


def test_every_stage_that_fails_ends_in_the_local_compile(daemon: DaemonProcess, tmp_path: Path) -> None:
    ended = train(tmp_path, python("offload.py"), daemon.address, INDUCTORD=None)
    asked = {"not serialisable", "whole"}
    assert ended.result == {
        name: {"result": "local", "fallbacks": {reason: 1}, "requests": int(name in asked)}
        for name, reason in REASONS.items()
    }
    # Each is said once, in words, without a traceback.
    assert ended.err.count("is compiled by this rank: ") == len(REASONS)
    assert "KeyError: 'a table of this process' (serialize_failed)" in ended.err
    assert "Traceback" not in ended.err


def test_an_operator_kept_from_lowering_before_inductord_came_is_noticed(daemon: DaemonProcess, tmp_path: Path) -> None:
    ended = train(
        tmp_path, python("kept.py"), daemon.address, INDUCTORD=None, CI=None
    )  # in CI, PyTorch would refuse it
    assert (ended.code, ended.fallbacks, ended.count("requests")) == (0, {"not_cacheable": 1}, 0), ended.err
    assert "the lowering of aten.sin" in ended.err


def test_what_pytorch_registers_late_is_not_taken_for_the_jobs(daemon: DaemonProcess, tmp_path: Path) -> None:
    assert train(tmp_path, python("late.py"), daemon.address).result == ["torch._inductor.choices"]


def test_graphs_that_cannot_travel_are_known_before_anybody_is_asked(tmp_path: Path) -> None:
    seen = train(tmp_path, python("bypass.py"), None).result
    guards, patterns, lock = json.loads(seen.pop("guards")), json.loads(seen.pop("patterns")), seen.pop("a lock")
    assert seen == {
        "plain": None,
        "debug trace": "debug_trace",
        "log of the compile": "debug_trace",
        "metrics of the compile": "debug_trace",
        "log of the rank": None,
        "without caches": "not_cacheable",
        "ahead of time": "not_cacheable",
        "own choices": "not_cacheable",
        "own code generator": "not_cacheable",
        "own pass of a code generator": "not_cacheable",
        "own pattern": "not_cacheable",
        "own pattern of the joint graph": None,
        "Inductor's own patterns": None,
        "own lowering": "not_cacheable",
        "kept from lowering": "not_cacheable",
        "of no use here": None,
        "own method of the scheduler": "not_cacheable",
        "hears of compiled graphs": "not_cacheable",
        "sifts choices": "not_cacheable",
        "hears of choices": "not_cacheable",
        "setting in no key": "not_cacheable",
        "Inductor's own functions on choices": None,
        "code looked at": None,
        "own function": "not_cacheable",
        "own functions": "not_cacheable",
        "own pass": "not_cacheable",
        "an operator of the user": None,
        "not lowered": None,
        "lowered by the user": "not_cacheable",
        "lowered as another": "not_cacheable",
        "branch": None,
        "marked by nobody": "not_cacheable",
        "holds an object": "not_cacheable",
        "another device": "device_unsupported",
    }
    assert "cannot pickle '_thread.lock' object" in lock
    # A result of AOTAutograd, which those of the joint graph decide about, is kept under their names.
    assert patterns == ["pattern aten.cos.default"]
    # Guards over symbolic sizes are stated, hold for the sizes they were made of, and fail where they do not hold.
    assert guards == [True, True, False]
