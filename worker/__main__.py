"""``python -m inductord.worker``: a worker process that compiles with PyTorch. Started by the local pool."""

from inductord.v1.compiler_pb2 import Toolchain
from inductord.v1.worker_pb2 import CompileReply
from inductord.worker.process import main

# torch comes with the compile task. It is imported in the worker, after the fork: its supervisor stays small.


def _warm() -> Toolchain:
    from inductord.compiler import task

    return task.warm()


def _compile_graph(graph: bytes, threads: int) -> CompileReply:
    from inductord.compiler import task

    return task.compile_graph(graph, threads)


if __name__ == "__main__":
    main(_warm, _compile_graph)
