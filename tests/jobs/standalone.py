"""Graphs that are compiled into files, and run from files. It knows nothing of inductord.

python standalone.py FOLDER [--load]

Compiles with ``standalone_compile``, as Inductor and as AOTAutograd keep it, and saves both; with ``--load``, runs what is
there. Prints a digest by name.
"""

import argparse
import json
from pathlib import Path

import torch
from cases import digest
from torch import Tensor
from torch._inductor import CompiledArtifact, standalone_compile
from torch.fx.experimental.proxy_tensor import make_fx

AHEAD = {"graph.bin": False, "with_autograd.bin": True}


def waved(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return (x.sin() @ y).relu(), x.cos().softmax(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--load", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    inputs = [torch.randn(6, 10), torch.randn(10, 6)]
    found = {}
    for name, aot in AHEAD.items():
        path = str(args.folder / name)
        if args.load:
            compiled = CompiledArtifact.load(path=path)
        else:
            graph = make_fx(waved)(*inputs)
            compiled = standalone_compile(graph, inputs, dynamic_shapes="from_example_inputs", aot=aot)
            compiled.save(path=path)
        found[name] = digest(compiled(*inputs))
    print(json.dumps(found))


main()
