"""The start of a job with plain Inductor and through inductord, side by side in one run, cold and warm.

    python benchmarks/cold.py [--json] [--device cpu|cuda] [--ranks 4] [--layers 4]

    cold       all caches empty
    warm       the same job again: Inductor's caches of the first time, and the daemon's store
    store only the same job again with empty Inductor caches, as in a new container: only the daemon's store is warm

Seconds are the slowest rank's, from the first call of the compiled model to the end of its first backward. CPU seconds are
those of all processes of the job, of the daemon and of its workers. Compiles are graphs that were really compiled, by a
rank or by a worker. Losses are compared with those of ranks that compile the same graphs by themselves.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from _common import machine, show, temporary_folder
from _jobs import CpuMeter, job_environment, run_alone, run_plain, run_shared, torchrun

_TRAIN = Path(__file__).with_name("_train.py")
_PASSED_ON = ("device", "layers", "width", "length", "batch")


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """How one job started."""

    first_backward_s: float
    cpu_s: float
    compiles: int
    fallbacks: int
    losses: list[list[str]]

    def as_json(self) -> dict[str, Any]:
        """Without the losses."""
        return {
            "first_backward_s": round(self.first_backward_s, 2),
            "cpu_s": round(self.cpu_s, 1),
            "compiles": self.compiles,
            "fallbacks": self.fallbacks,
        }


class Bench:
    """Runs the job again and again in folders below ``root``."""

    def __init__(self, root: Path, args: argparse.Namespace) -> None:
        self._root = root
        self._args = args
        self._numbers = itertools.count()

    def new_caches(self) -> dict[str, str]:
        """An environment with empty caches."""
        return job_environment(self._root / f"caches{next(self._numbers)}")

    def plain(self, env: Mapping[str, str]) -> Start:
        """The job with plain Inductor."""

        def run(command: list[str]) -> None:
            run_plain(command, env)

        return self._measured(run)

    def shared(self, env: Mapping[str, str]) -> Start:
        """The job through a daemon; the store is that of the call before."""
        return self._measured(lambda command: run_shared(command, env, self._root / "daemon"))

    def alone(self) -> Start:
        """The job without a daemon, its graphs cut as with one: what losses are compared with."""
        env = self.new_caches()
        return self._measured(lambda command: run_alone(command, env, self._root))

    def _measured(self, run: Callable[[list[str]], Mapping[str, Any] | None]) -> Start:
        args = self._args
        out = self._root / f"out{next(self._numbers)}"
        passed_on = itertools.chain.from_iterable((f"--{name}", getattr(args, name)) for name in _PASSED_ON)
        command = torchrun(args.ranks, _TRAIN, *passed_on, "--out", out)
        meter = CpuMeter()
        report = run(command)
        cpu_s = meter.seconds()
        rows = [json.loads((out / f"rank-{rank}.json").read_text()) for rank in range(args.ranks)]
        if report is None:
            fallbacks, compiles = 0, sum(row["not_in_inductors_cache"] for row in rows)
        else:
            fallbacks = report["fallbacks_total"]
            compiles = report["compiles"] + fallbacks
        seconds = max(row["first_backward_s"] for row in rows)
        return Start(seconds, cpu_s, compiles, fallbacks, [row["losses"] for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--length", type=int, default=128, help="tokens of one sequence")
    parser.add_argument("--batch", type=int, default=2, help="sequences of one rank")
    args = parser.parse_args()
    with temporary_folder() as root:
        bench = Bench(root, args)
        plain_caches, shared_caches = bench.new_caches(), bench.new_caches()
        starts = {
            "inductor": {"cold": bench.plain(plain_caches), "warm": bench.plain(plain_caches)},
            "inductord": {
                "cold": bench.shared(shared_caches),
                "warm": bench.shared(shared_caches),
                "store_only": bench.shared(bench.new_caches()),
            },
        }
        same = bench.alone().losses
    cold, shared = starts["inductor"]["cold"], starts["inductord"]
    ratios = {
        name: {
            "first_backward": round(base.first_backward_s / start.first_backward_s, 2),
            "cpu": round(base.cpu_s / start.cpu_s, 2),
        }
        for name, base, start in (
            ("cold", cold, shared["cold"]),
            ("warm", starts["inductor"]["warm"], shared["warm"]),
            # Without the store this is a cold start.
            ("store_only", cold, shared["store_only"]),
        )
    }
    result = {
        "benchmark": "cold",
        "machine": machine(),
        **{name: getattr(args, name) for name in ("device", "ranks", "layers", "width", "length", "batch")},
        **{side: {name: start.as_json() for name, start in kinds.items()} for side, kinds in starts.items()},
        "times_better": ratios,
        # Plain Inductor fuses across the cuts between regions, and so rounds otherwise.
        "losses_equal": all(start.losses == same for start in shared.values()),
    }
    rows = [
        (
            f"{side}, {name.replace('_', ' ')}",
            f"{start.first_backward_s:.1f} s, {start.cpu_s:.0f} CPU s, {start.compiles} compiles, "
            f"{start.fallbacks} fallbacks",
        )
        for side, kinds in starts.items()
        for name, start in kinds.items()
    ]
    rows += [
        (f"inductord is better by, {name.replace('_', ' ')}", f"{by['first_backward']}x time, {by['cpu']}x CPU")
        for name, by in ratios.items()
    ]
    rows.append(("losses bitwise equal", "yes" if result["losses_equal"] else "NO"))
    show(result, rows, as_json=args.json)


if __name__ == "__main__":
    main()
