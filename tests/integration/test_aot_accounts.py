"""PyTorch's own accounting is as true through the service as without."""

import json
import re
from pathlib import Path

import pytest
from support.daemon import DaemonProcess
from support.training import Ended, Running, environment, python

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

GRAPHS = 3
OF_CODE_GENERATION = {
    "num_graph_breaks",
    "post_grad_pass_time_us",
    "code_gen_time_s",
    "inductor_code_gen_cumulative_compile_time_us",
}
TIMED_IN_CODE_GENERATION = {
    "PythonWrapperCodegen",
    "GraphLowering",
    "Scheduler",
    "pass",
    "additional_fake_tensor_prop",
    "compile_file",
    "_recursive_post_grad_passes",
}
LOGS = ("graph_code", "aot_graphs", "guards", "recompiles", "kernel_code", "output_code")
OF_THE_PROCESS = re.compile(
    r"_[0-9a-f]{8}(_[0-9a-f]{4}){3}_[0-9a-f]{12}|\d{9,}|Guard eval latency.*|\(\S+:\d+ in \w+\)|\S+\.py"
    r"|Source Nodes: \[.*?\]|# AOT ID: .*|.* written to: .*"
)
"""Names, addresses and paths of one process; and two comments, which are made of what a graph does not take along."""


def logged(err: str) -> dict[str, list[str]]:
    """What TORCH_LOGS printed, by name, without what differs between two processes."""
    lines: dict[str, list[str]] = {}
    for name, text in re.findall(r"\[__(\w+)\] ?(.*)$", err, re.MULTILINE):
        if line := OF_THE_PROCESS.sub("", text).rstrip():
            lines.setdefault(name, []).append(line)
    return lines


def traced(folder: Path) -> set[str]:
    """Names of what TORCH_TRACE wrote, for tlparse."""
    names: set[str] = set()
    for path in folder.glob("*.log"):
        for found in re.finditer(r"\{.*\}$", path.read_text(), re.MULTILINE):
            event = json.loads(found.group())
            names |= {event["artifact"]["name"]} if "artifact" in event else set(event)
    return names


def test_counters_times_metrics_logs_and_traces_are_those_of_inductor(
    real_daemon: DaemonProcess, tmp_path: Path
) -> None:
    jobs: dict[str, Running] = {}
    for name, address in (("plain", None), ("through", real_daemon.address)):
        env = environment(
            tmp_path / name, address, TORCH_TRACE=str(tmp_path / name / "trace"), TORCH_LOGS=",".join(LOGS)
        )
        jobs[name] = Running(python("accounts.py"), env)
    ended: dict[str, Ended] = {name: job.finish() for name, job in jobs.items()}
    plain, through = ended["plain"].result, ended["through"].result
    # The wrapper module is written from the artifact. What generating code counts stays with the worker that generated it.
    assert plain["counters"].pop("aten_mm_info")
    assert through["counters"]["inductor"].pop("fxgraph_lookup_write_file") == GRAPHS
    assert through["counters"] == plain["counters"]
    assert "CppOuterLoopFusedCount" in plain["inductor"]["cpp_outer_loop_fused_inner_counts"]
    assert through["inductor"] == plain["inductor"]
    assert set(plain["metrics"]) == set(through["metrics"]) == {"forward True", "forward False"}
    for kind, fields in plain["metrics"].items():
        assert set(fields) - set(through["metrics"][kind]) == OF_CODE_GENERATION
        assert set(through["metrics"][kind]) <= set(fields)
    assert set(through["times"]) - set(plain["times"]) <= {"TritonBundler.read_and_emit"}
    missing = set(plain["times"]) - set(through["times"])
    assert {name.split(".")[0] for name in missing} == TIMED_IN_CODE_GENERATION
    names = {name: traced(tmp_path / name / "trace") for name in jobs}
    assert names["plain"] - names["through"] == {"before_post_grad_graph"}
    assert len(names["plain"]) > 40
    logs = {name: logged(each.err) for name, each in ended.items()}
    assert set(logs["plain"]) == set(LOGS)
    assert logs["through"] == logs["plain"]
    assert (ended["through"].fallbacks, ended["through"].count("led")) == ({}, GRAPHS), ended["through"].err
