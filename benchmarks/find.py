"""What finding repeats costs: seconds of `plan` over the size of the graph.

    python benchmarks/find.py [--json] [--layers 100 200 400] [--repeat 5]

The graphs are Llama-shaped, of about 52 nodes a layer, with the fake values that Dynamo would note on them. Making them takes
longer than the search and is not counted. `growth` is the time a node in the largest graph over that in the smallest: 1 means
linear.
"""

import argparse
import sys
import time

from _common import ROOT, machine, show

sys.path.insert(0, str(ROOT / "tests"))

from support.graphs import decoder

from inductord.compiler.regions.find import plan
from inductord.compiler.regions.plan import Plan


def measure(layers: int, repeat: int) -> dict[str, float]:
    """The best of ``repeat`` searches in one graph."""
    graph = decoder(layers)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        found = plan(graph)
        times.append(time.perf_counter() - start)
    assert isinstance(found, Plan)
    seconds = round(min(times), 4)
    nodes = len(graph.graph.nodes)
    return {"nodes": nodes, "seconds": seconds, "pieces": len(found.pieces), "distinct": found.distinct}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--layers", type=int, nargs="+", default=[100, 200, 400])
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    rows = [measure(layers, args.repeat) for layers in sorted(args.layers)]
    each = [row["seconds"] / row["nodes"] for row in rows]
    result = {"graphs": rows, "growth": round(each[-1] / each[0], 2), **machine()}
    table = [(f"{row['nodes']} nodes", f"{row['seconds']} s, {row['distinct']} distinct") for row in rows]
    show(result, [*table, ("growth of the time a node", str(result["growth"]))], as_json=args.json)


if __name__ == "__main__":
    main()
