"""A worker without torch that replies with what a real worker once made of the same graph, so that faults around a compile
can be tested with ranks that really train. What is a script is done as one (``scripted.py``). Faults come from ``faults.py``.

Environment:
    RECORDED: a folder of artifacts, each under the key that its graph is sent with.
"""

import os
from pathlib import Path

import scripted
from faults import faulty

from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker.process import main


def warm() -> Toolchain:
    """Ready at once, and silent about versions: what was recorded is right for any rank of this session."""
    return Toolchain()


def compile_graph(key: str, graph: bytes, threads: int) -> CompileReply:
    """The artifact that was recorded. Another graph than these and scripts is a defect of the test; the worker dies of it."""
    if graph.startswith(b"["):
        return scripted.compile_graph(key, graph, threads)
    artifact = Path(os.environ["RECORDED"], key).read_bytes()
    return CompileReply(artifact=artifact, compile_seconds=1.0)


if __name__ == "__main__":
    main(warm, faulty(compile_graph))
