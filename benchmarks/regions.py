"""The cold start of a deep model: plain Inductor on the whole graph, then each distinct region compiled once and composed.

    python benchmarks/regions.py [--json] [--device cpu|cuda] [--layers 12] [--width 256] [--second-start] [--no-daemon]

Both sides in fresh processes, on one rank, with empty caches; the daemon is up, with a worker and an empty store. Seconds go
from the first call of the compiled model to the end of its first backward; a step is the median of many; the peak is of the
memory during those steps. Gradients are compared with those of float64 in eager mode, relative over all parameters.

    --second-start   the same again: Inductor on the caches that it left, inductord with empty caches and a warm daemon
    --no-daemon      the rank compiles the regions itself
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _common import machine, serving, show, temporary_folder
from _jobs import job_environment, wait_for_a_worker

_DEEP = Path(__file__).with_name("_deep.py")
_PASSED_ON = ("device", "layers", "width", "heads", "length", "batch", "vocabulary", "ddp", "warmup", "steps")
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

    def run(self, env: Mapping[str, str], *, gradients: bool = True) -> dict[str, Any]:
        """One process. What the rank counted is under ``rank``."""
        reports = self._root / f"reports{next(self._numbers)}"
        reports.mkdir()
        passed_on = itertools.chain.from_iterable((f"--{name}", str(getattr(self._args, name))) for name in _PASSED_ON)
        command = [sys.executable, str(_DEEP), *passed_on, *(["--gradients"] if gradients else [])]
        done = subprocess.run(
            command, env={**env, "INDUCTORD_REPORT_DIR": str(reports)}, stdout=subprocess.PIPE, text=True, check=True
        )
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        for path in reports.glob("rank-*.json"):
            result["rank"] = json.loads(path.read_text())
        return result


def measured(bench: Bench, root: Path, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """All runs by name."""
    plain = bench.caches() | {"INDUCTORD": "0"}
    runs: dict[str, dict[str, Any]] = {}

    def run(name: str, env: Mapping[str, str], *, gradients: bool = True) -> None:
        runs[name] = bench.run(env, gradients=gradients)
        if args.save:
            args.save.write_text(json.dumps({name: summary(run) for name, run in runs.items()}) + "\n")

    run("inductor", plain)
    if args.second_start:
        run("inductor_second", plain, gradients=False)
    folder = root / "daemon"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        address = f"unix:{folder / 'nobody.sock'}"
        if not args.no_daemon:
            address = stack.enter_context(serving(folder, job_environment(folder), [])).address
            wait_for_a_worker(address)
        shared = {"INDUCTORD": "1", "INDUCTORD_ADDRESS": address, "INDUCTORD_REGIONS": args.regions}
        run("regions", bench.caches() | shared)
        if args.second_start:
            run("regions_second", bench.caches() | shared, gradients=False)
    return runs


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
        runs = measured(Bench(root, args), root, args)
    plain, regions = runs["inductor"], runs["regions"]
    ratios = {
        name.removesuffix("_s").removesuffix("_ms").removesuffix("_mb"): round(regions[name] / plain[name], 3)
        for name in ("cold_s", "cpu_s", "step_ms", "peak_mb", "gradient_error")
    }
    if args.second_start:
        ratios["second_start"] = round(runs["regions_second"]["cold_s"] / runs["inductor_second"]["cold_s"], 3)
    result = {
        "benchmark": "regions",
        "machine": machine(),
        **{name: getattr(args, name) for name in (*_PASSED_ON[:8], "threads", "regions")},
        **{name: summary(run) for name, run in runs.items()},
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
