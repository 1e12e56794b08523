"""The main job, measured: four ranks train with plain Inductor, then through inductord, each with cold caches. A third time
each rank compiles by itself what it had from the daemon, to compare the losses: bitwise, since the graphs are the same.

    python demo/compare.py [--pool ray] [--ranks 4] [--steps 20] [--layers 4]

The last line of output is one JSON object. CPU seconds are those of all processes of a side, daemon and workers included.
Seconds of the first step are the slowest rank's, from the first call of the compiled model to the end of its first backward.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from _common import temporary_folder
from _jobs import CpuMeter, job_environment, run_alone, run_plain, run_shared, torchrun

_TRAIN = Path(__file__).with_name("train.py")


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What one side did. ``losses``: by rank, exact; ``first_step_s``: of the slowest rank; ``report``: of inductord."""

    losses: list[list[str]]
    first_step_s: float
    cpu_s: float
    report: Mapping[str, Any]


def _command(args: argparse.Namespace, out: Path) -> list[str]:
    job = ("--steps", args.steps, "--layers", args.layers, "--seed", args.seed, "--out", out)
    return torchrun(args.ranks, _TRAIN, *job)


def _read(out: Path, ranks: int, cpu_s: float, report: Mapping[str, Any]) -> Side:
    rows = [json.loads((out / f"rank-{rank}.json").read_text()) for rank in range(ranks)]
    return Side([row["losses"] for row in rows], max(row["first_step_s"] for row in rows), cpu_s, report)


def with_inductor(args: argparse.Namespace, folder: Path) -> Side:
    """The job on plain Inductor."""
    meter = CpuMeter()
    run_plain(_command(args, folder / "out"), job_environment(folder))
    return _read(folder / "out", args.ranks, meter.seconds(), {})


def with_inductord(args: argparse.Namespace, folder: Path) -> Side:
    """The same job through a daemon of its own."""
    meter = CpuMeter()
    env = job_environment(folder)
    report = run_shared(_command(args, folder / "out"), env, folder / "daemon", ["--pool", args.pool])
    return _read(folder / "out", args.ranks, meter.seconds(), report)


def alone(args: argparse.Namespace, folder: Path) -> Side:
    """The job without a daemon; its ranks cut their graphs as they did with one."""
    meter = CpuMeter()
    run_alone(_command(args, folder / "out"), job_environment(folder), folder)
    return _read(folder / "out", args.ranks, meter.seconds(), {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="local")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    sides = {}
    for name, run, words in (
        ("inductor", with_inductor, "with inductor"),
        ("inductord", with_inductord, "with inductord"),
        ("alone", alone, "that compile by themselves what inductord gave them"),
    ):
        print(f"--- {args.ranks} ranks {words}, cold caches", flush=True)
        with temporary_folder() as folder:
            sides[name] = run(args, folder)
    shared, same = sides["inductord"], sides.pop("alone")
    print(
        json.dumps(
            {
                "ranks": args.ranks,
                "graphs": shared.report["graphs"],
                "compiles": shared.report["compiles"],
                "requests": shared.report["requests"],
                "fallbacks": shared.report["fallbacks_total"],
                "losses_equal": same.losses == shared.losses,
                "first_step_s": {name: round(side.first_step_s, 1) for name, side in sides.items()},
                "cpu_s": {name: round(side.cpu_s, 1) for name, side in sides.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
