"""``python -m inductord.worker``: a worker process that compiles with PyTorch. Started by the local pool.

torch is imported in the worker, after the fork, so that its supervisor stays small.
"""

from inductord.worker.compile_task import compile_graph, warm
from inductord.worker.process import main

if __name__ == "__main__":
    main(warm, compile_graph)
