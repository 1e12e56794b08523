"""Writes what a rank would send for one small graph, and what a rank must not send, to files in the folder given.

Prints the key of the graph.
"""

import sys
from pathlib import Path

import torch
from keys import capture, network

from inductord.compiler import graph_key, payload
from inductord.compiler.adapter import wire
from inductord.compiler.adapter.seam import GraphCall
from inductord.v1.compiler_pb2 import Toolchain

folder = Path(sys.argv[1])


def look(call: GraphCall) -> None:
    identified = graph_key.identify(call)
    key, ambient, content = identified.key.digest, identified.ambient, wire.dumps(call)
    other = {**ambient, "num_threads": ambient["num_threads"] + 1}
    unknown = {**ambient, "no_such_setting": 1}
    tools, other_torch = identified.toolchain, Toolchain()
    other_torch.CopyFrom(tools)
    other_torch.torch = "1.0"
    for name, toolchain, settings, graph in (
        ("right", tools, ambient, content),
        ("other settings", tools, other, content),
        ("unknown settings", tools, unknown, content),
        ("no graph", tools, ambient, b"these bytes are no graph"),
        ("half a graph", tools, ambient, content[: len(content) // 2]),
        ("other torch", other_torch, unknown, b"no graph"),
    ):
        packed = payload.pack_graph(payload.Graph(toolchain, call.kind, settings, graph))
        (folder / name).write_bytes(packed)
    (folder / "no payload").write_bytes(b"\xff\xfe nothing")
    print(f'"{key}"')


capture(look, network, torch.randn(6, 30), torch.randn(30, 5))
