"""The compile task as workers of every pool are given it. Imports torch when it is called, never before."""

from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import CompileReply


def warm() -> Toolchain:
    """See ``inductord.compiler.task.warm``."""
    from inductord.compiler import task

    return task.warm()


def compile_graph(key: str, graph: bytes, threads: int) -> CompileReply:
    """See ``inductord.compiler.task.compile_graph``."""
    from inductord.compiler import task

    return task.compile_graph(key, graph, threads)
