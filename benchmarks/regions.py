"""The cold start of a deep model: plain Inductor on the whole graph, then each distinct region compiled once and composed.

    python benchmarks/regions.py [--json] [--device cpu|cuda] [--layers 12] [--width 256] [--second-start] [--no-daemon]

Both sides in fresh processes, on one rank, with empty caches; the daemon is up, with a worker and an empty store. Seconds go
from the first call of the compiled model to the end of its first backward; a step is the median of many; the peak is of the
memory during those steps. Gradients are compared with those of float64 in eager mode, relative over all parameters.

    --second-start   the same again: Inductor on the caches that it left, inductord with empty caches and a warm daemon. Then
                     steps of these two and of a twin of each in turn, ten rounds of twenty: on a machine that others use,
                     these can be compared, and twins say how well
    --no-daemon      the rank compiles the regions itself
"""

import argparse
import contextlib
import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from _common import machine, serving, show, temporary_folder
from _jobs import job_environment, wait_for_a_worker

_DEEP = Path(__file__).with_name("_deep.py")
_PASSED_ON = ("device", "layers", "width", "heads", "length", "batch", "vocabulary", "ddp", "warmup", "steps")
_ROUNDS = 10
_TWINS = 2
_STEPS_A_ROUND = 20
_SPENT = ("key_seconds", "serialize_seconds", "wait_seconds", "load_seconds", "local_compile_seconds")


class Bench:
    """Runs the model in folders below ``root``."""

    def __init__(self, root: Path, args: argparse.Namespace) -> None:
        self._root = root
        self._args = args
        self._numbers = itertools.count()

    def caches(self) -> dict[str, str]:
        """An environment with empty caches."""
        env = job_environment(self._root / f"caches{next(self._numbers)}")
        return env | {"OMP_NUM_THREADS": str(self._args.threads)}

    def run(self, env: Mapping[str, str]) -> dict[str, Any]:
        """One process, with the error of its gradients. What the rank counted is under ``rank``."""
        with Rank(self._command("--gradients"), env, self._reports()) as rank:
            pass
        return rank.result

    def standing(self, env: Mapping[str, str]) -> "Rank":
        """One process that stays, for further steps, until its context ends."""
        return Rank(self._command("--stay"), env, self._reports())

    def _command(self, flag: str) -> list[str]:
        passed_on = itertools.chain.from_iterable((f"--{name}", str(getattr(self._args, name))) for name in _PASSED_ON)
        return [sys.executable, str(_DEEP), *passed_on, flag]

    def _reports(self) -> Path:
        reports = self._root / f"reports{next(self._numbers)}"
        reports.mkdir()
        return reports


class Rank:
    """A process that has trained its first steps; ``result`` is what it measured, once its context has begun."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], reports: Path) -> None:
        self.result: dict[str, Any] = {}
        self._reports = reports
        self._process = subprocess.Popen(
            command,
            env={**env, "INDUCTORD_REPORT_DIR": str(reports)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        self.result = json.loads(self._line())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait():
            raise subprocess.CalledProcessError(self._process.returncode, self._process.args)
        for path in self._reports.glob("rank-*.json"):
            self.result["rank"] = json.loads(path.read_text())

    def step_ms(self, count: int) -> float:
        """Median of so many steps."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith(("{", *"0123456789")):
                return line
        raise subprocess.CalledProcessError(self._process.wait(), self._process.args)


def side_by_side(plain: Sequence[Rank], regions: Sequence[Rank]) -> dict[str, float]:
    """Steps of all in turn, so that what else the machine does hits all alike: medians over rounds, of two processes a side.
    ``twins``: how far the two of one side are apart, the worse side; a ratio that differs less from 1 says nothing."""
    ranks = [*plain, *regions]
    times: list[list[float]] = [[] for _ in ranks]
    for first in range(_ROUNDS):  # who begins changes
        for at in range(first, first + len(ranks)):
            number = at % len(ranks)
            times[number].append(ranks[number].step_ms(_STEPS_A_ROUND))
    medians = [statistics.median(each) for each in times]
    sides = medians[: len(plain)], medians[len(plain) :]
    return {
        "inductor_ms": round(statistics.mean(sides[0]), 3),
        "regions_ms": round(statistics.mean(sides[1]), 3),
        "ratio": round(statistics.mean(sides[1]) / statistics.mean(sides[0]), 3),
        "twins": round(max(max(side) / min(side) for side in sides), 3),
        "rounds": _ROUNDS,
    }


def measured(bench: Bench, root: Path, args: argparse.Namespace) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """All runs by name, and steps side by side if both started a second time."""
    plain = bench.caches() | {"INDUCTORD": "0"}
    runs: dict[str, dict[str, Any]] = {}

    def keep(name: str, result: dict[str, Any]) -> None:
        runs[name] = result
        if args.save:
            args.save.write_text(json.dumps({name: summary(run) for name, run in runs.items()}) + "\n")

    keep("inductor", bench.run(plain))
    folder = root / "daemon"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        if args.second_start:
            plain_ranks = [stack.enter_context(bench.standing(plain)) for _ in range(_TWINS)]
            keep("inductor_second", plain_ranks[0].result)
        address = f"unix:{folder / 'nobody.sock'}"
        if not args.no_daemon:
            address = stack.enter_context(serving(folder, job_environment(folder), [])).address
            wait_for_a_worker(address)
        shared = {"INDUCTORD": "1", "INDUCTORD_ADDRESS": address, "INDUCTORD_REGIONS": args.regions}
        keep("regions", bench.run(bench.caches() | shared))
        steps: dict[str, float] = {}
        if args.second_start:
            with contextlib.ExitStack() as standing:
                regions_ranks = [standing.enter_context(bench.standing(bench.caches() | shared)) for _ in range(_TWINS)]
                steps = side_by_side(plain_ranks, regions_ranks)
            keep("regions_second", regions_ranks[0].result)
    return runs, steps


def summary(run: Mapping[str, Any]) -> dict[str, Any]:
    """Of one run: its figures, and what a rank through inductord spent its seconds on."""
    rank = run.get("rank")
    figures = {name: value for name, value in run.items() if name not in ("rank", "loss")}
    if rank:
        figures |= {
            "pieces": int(rank.get("region_pieces", 0)),
            "distinct_pieces": int(rank.get("region_distinct", 0)),
            "compiles": int(rank.get("led", 0)) + sum(map(int, rank.get("fallbacks", {}).values())),
            "found_stored": int(rank.get("hits", 0)),
            "rank_s": {name.removesuffix("_seconds"): round(rank.get(name, 0.0), 2) for name in _SPENT},
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=0, help="one for each 64 of the width when 0")
    parser.add_argument("--length", type=int, default=128, help="tokens of one sequence")
    parser.add_argument("--batch", type=int, default=2, help="sequences")
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument(
        "--ddp", type=float, default=0, help="size of DistributedDataParallel's buckets in MB; 0: without it"
    )
    parser.add_argument("--warmup", type=int, default=10, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=40, help="steps that are timed")
    parser.add_argument("--threads", type=int, default=1, help="OMP_NUM_THREADS of the rank")
    parser.add_argument("--regions", choices=("auto", "force", "off"), default="auto")
    parser.add_argument("--second-start", action="store_true", help="also with warm caches and a warm store")
    parser.add_argument("--save", type=Path, help="file that gets the results, anew after each run")
    parser.add_argument("--no-daemon", action="store_true", help="the rank compiles the regions itself")
    args = parser.parse_args()
    with temporary_folder() as root:
        runs, steps = measured(Bench(root, args), root, args)
    plain, regions = runs["inductor"], runs["regions"]
    ratios = {
        name.removesuffix("_s").removesuffix("_ms").removesuffix("_mb"): round(regions[name] / plain[name], 3)
        for name in ("cold_s", "cpu_s", "step_ms", "peak_mb", "gradient_error")
    }
    if args.second_start:
        ratios["second_start"] = round(runs["regions_second"]["cold_s"] / runs["inductor_second"]["cold_s"], 3)
        ratios |= {"step_side_by_side": steps["ratio"], "twins": steps["twins"]}
    result = {
        "benchmark": "regions",
        "machine": machine(),
        **{name: getattr(args, name) for name in (*_PASSED_ON[:8], "threads", "regions")},
        **{name: summary(run) for name, run in runs.items()},
        "side_by_side": steps,
        "regions_to_inductor": ratios,
    }
    rows = [
        (
            name.replace("_", " "),
            f"cold {run['cold_s']:.1f} s, step {run['step_ms']} ms, peak {run['peak_mb']:.0f} MB"
            + (f", gradients {run['gradient_error']:.1e} off float64" if "gradient_error" in run else ""),
        )
        for name, run in runs.items()
    ]
    rows += [(f"regions to inductor, {name.replace('_', ' ')}", str(ratio)) for name, ratio in ratios.items()]
    if args.save:
        args.save.write_text(json.dumps(result) + "\n")
    show(result, rows, as_json=args.json)


if __name__ == "__main__":
    main()
