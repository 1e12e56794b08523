"""Nothing that works with plain Inductor is lost through the service: PyTorch's operators, one after the other.

    pip install expecttest        # PyTorch's test database asks for it
    python tests/upstream/operators.py [--every 1]

PyTorch's own tests of Inductor are not installed with it; its database of operators, and of samples for them, is. Each operator
is compiled by plain Inductor and through a daemon, forward and backward, side by side on caches of their own. What one of them
gives and the other does not, or gives differently, is listed. An hour on two cores; no part of ``make test``.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.compiler import remember_compiles
from support.daemon import running_daemon, share_prepared
from support.training import NO_GRAPH_CACHE, Ended, Running, environment

_JOB = Path(__file__).with_name("_operators.py")


def _by_name(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err[-8000:]
    return {found.pop("name"): found for found in map(json.loads, ended.out.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take each n-th operator")
    args = parser.parse_args()
    command = [sys.executable, str(_JOB), str(args.every)]
    with tempfile.TemporaryDirectory(prefix="operators-") as name:
        folder = Path(name)
        (folder / "prepared").mkdir()
        share_prepared(folder / "prepared")
        remember_compiles(folder / "cxx")
        settings = {"worker_command": f"{sys.executable} -m inductord.worker", "max_workers": 1}
        with running_daemon(folder / "daemon", **settings) as daemon:
            plain = Running(command, environment(folder / "plain", None, **NO_GRAPH_CACHE))
            try:
                through = Running(command, environment(folder / "through", daemon.address, **NO_GRAPH_CACHE)).finish()
            finally:
                alone = plain.finish()
    here, there = _by_name(alone), _by_name(through)
    differing = {
        name: {"inductor": found, "inductord": there[name]}
        for name, found in here.items()
        if (found.get("digest"), found.get("error")) != (there[name].get("digest"), there[name].get("error"))
    }
    for name, sides in differing.items():
        print(name, json.dumps(sides, indent=2))
    print(
        json.dumps(
            {
                "torch_operators": len(here),
                "work_with_inductor": sum("digest" in found for found in here.values()),
                "differ": sorted(differing),
                "requests": through.count("requests"),
                "fallbacks": through.fallbacks,
            }
        )
    )


if __name__ == "__main__":
    main()
