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
    for name, settings, graph in (
        ("right", ambient, content),
        ("other settings", other, content),
        ("unknown settings", unknown, content),
        ("no graph", ambient, b"these bytes are no graph"),
        ("half a graph", ambient, content[: len(content) // 2]),
    ):
        packed = payload.pack_graph(payload.Graph(identified.toolchain, call.kind, settings, graph))
        (folder / name).write_bytes(packed)
    other_torch = Toolchain()
    other_torch.CopyFrom(identified.toolchain)
    other_torch.torch = "1.0"
    (folder / "other torch").write_bytes(
        payload.pack_graph(payload.Graph(other_torch, call.kind, unknown, b"no graph"))
    )
    (folder / "no payload").write_bytes(b"\xff\xfe nothing")
    print(f'"{key}"')


capture(look, network, torch.randn(6, 30), torch.randn(30, 5))
