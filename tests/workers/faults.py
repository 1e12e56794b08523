"""Faults for workers that otherwise work: the first jobs of a test begin with steps of ``scripted.py``, such as dying.

Environment:
    FAULT_STEPS: the steps, as JSON; none when unset. ``{key}`` in it becomes the key of the graph.
    FAULT_JOBS: so many jobs, over all workers of the test, begin with them.
    FAULT_FOLDER: where jobs that had their fault are counted.
"""

import json
import os
from pathlib import Path

from scripted import run_steps

from inductord.v1.worker_pb2 import CompileReply
from inductord.worker.process import CompileGraph


def faulty(compile_graph: CompileGraph) -> CompileGraph:
    """``compile_graph`` with the fault of the environment before it."""
    written = os.environ.get("FAULT_STEPS", "[]")

    def with_fault(key: str, graph: bytes, threads: int) -> CompileReply:
        steps = json.loads(written.replace("{key}", key))
        reply = run_steps(steps, graph, threads) if steps and _one_more() else None
        return reply or compile_graph(key, graph, threads)

    return with_fault


def _one_more() -> bool:
    folder = Path(os.environ["FAULT_FOLDER"])
    for number in range(int(os.environ["FAULT_JOBS"])):
        try:
            (folder / f"fault-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False
