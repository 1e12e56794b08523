"""A product of matrices of which Inductor measures whether padding pays, in a process that has no device to measure on.

    python padded.py pad|leave [ADDRESS]

The first argument says which way is faster here. With a daemon's address it is asked. Prints whether the graph pads, and how
often was measured.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from torch._inductor.fx_passes import pad_mm
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inductord.compiler.adapter import padding, tuned
from inductord.compiler.client import Client
from inductord.compiler.tuning import Tuner
from inductord.v1.compiler_pb2 import Requester


def main() -> None:
    faster, *address = sys.argv[1:]
    measured = 0

    def benchmark(function: Any, *_: Any, **__: Any) -> float:
        nonlocal measured
        measured += 1
        padded = "orig" not in function.__name__
        return 1.0 if padded == (faster == "pad") else 2.0

    # What only a GPU has.
    module: Any = pad_mm
    module.check_device = lambda *_: True
    module.has_triton = lambda *_, **__: True
    module.is_mm_compute_bound = lambda *_: True
    module.get_do_bench = lambda: benchmark
    device: Any = tuned.device
    device.describe = lambda _: SimpleNamespace(identity="a card of some model")
    ours: Any = tuned
    ours.uuid = lambda _: "GPU-0"
    torch._inductor.config.shape_padding = True
    if address:
        client = Client(address[0])
        padding.install(Tuner(client, lambda: Requester(job="padded", rank=0, world_size=1, pid=1)).choose)
    with FakeTensorMode() as mode:
        graph = make_fx(torch.mm)(torch.randn(33, 65), torch.randn(65, 31))
    with V.set_fake_mode(mode):
        joint_graph_passes(graph)
    pads = any(node.target is torch.ops.aten.constant_pad_nd.default for node in graph.graph.nodes)
    print(json.dumps({"pads": pads, "measured": measured}))


if __name__ == "__main__":
    main()
