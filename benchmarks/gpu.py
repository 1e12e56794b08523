"""GPU jobs with plain Inductor and through inductord, whose workers see no GPU: counts, losses and choices, side by side.

    python benchmarks/gpu.py [--json] [--ranks 2] [--modes default reduce-overhead max-autotune-no-cudagraphs]
                             [--limit 300] [--save FILE]

For each mode: the job through a daemon, all caches empty; again as a second job, with the daemon's store and empty caches,
where ranks also have an empty PATH: they need no compiler at all; and with plain Inductor. With fewer GPUs than ranks,
ranks share them, over gloo. Meanwhile the files that workers hold open are looked at: none may be a GPU.
A job that fails or runs past its limit is named under ``failed``, and the next mode goes on.
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from _common import machine, show, temporary_folder
from _jobs import job_environment, run_plain, run_shared, torchrun

_TRAIN = Path(__file__).with_name("_gpu_train.py")
_GPU = re.compile(r"/dev/nvidia\d+")
_MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs")


class WorkerWatch:
    """Looks, while a job runs, whether a worker of the pool has a GPU open. ``as_json`` once it has ended."""

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._with_gpu: set[int] = set()
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._looking.join()

    def as_json(self) -> dict[str, int]:
        return {"workers": len(self._workers), "workers_with_gpu": len(self._with_gpu)}

    def _look(self) -> None:
        while not self._over.wait(0.5):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):  # it has ended
                    if b"inductord.worker" in (process / "cmdline").read_bytes():
                        self._workers.add(int(process.name))
                        files = [os.readlink(file) for file in (process / "fd").iterdir()]
                        if any(_GPU.fullmatch(file) for file in files):
                            self._with_gpu.add(int(process.name))


class Bench:
    """Runs jobs in folders below ``root``."""

    def __init__(self, root: Path, args: argparse.Namespace) -> None:
        self._root = root
        self._args = args
        self._numbers = itertools.count()

    def job(self, mode: str, *, shared: bool, empty_path: bool = False) -> dict[str, Any]:
        """One job on empty caches; the store of shared jobs of one mode is the same."""
        number = next(self._numbers)
        env = job_environment(self._root / f"caches{number}")
        # Each rank has a Triton folder of its own, below Inductor's: nothing is shared behind the daemon's back.
        del env["TRITON_CACHE_DIR"]
        out = self._root / f"out{number}"
        command = torchrun(self._args.ranks, _TRAIN, "--mode", mode, "--layers", self._args.layers, "--out", out)
        if empty_path:
            command = ["/usr/bin/env", "PATH=/nonexistent", *command]
        # torchrun ends its ranks when it is told to end; a rank that hangs would keep its GPU.
        command = ["timeout", "--kill-after=30", str(self._args.limit), *command]
        report: Any = None
        if shared:
            folder = self._root / f"daemon-{mode}"
            with WorkerWatch() as workers:
                report = {**run_shared(command, env, folder), **workers.as_json()}
            if report["fallbacks_total"]:
                print((folder / "daemon.log").read_text(), file=sys.stderr)
        else:
            run_plain(command, env)
        rows = [json.loads((out / f"rank-{rank}.json").read_text()) for rank in range(self._args.ranks)]
        return {"ranks": rows, "report": report}


def _summary(job: dict[str, Any]) -> dict[str, Any]:
    rows, report = job["ranks"], job["report"]
    found: dict[str, Any] = {
        "first_backward_s": max(row["first_backward_s"] for row in rows),
        "triton_compiles": [row["triton_compiles"] for row in rows],
        "kernels_not_delivered": [row["kernels_not_delivered"] for row in rows],
        "kernels_delivered": [row["kernels_delivered"] for row in rows],
        "tunings": [len(row["tuned"]) for row in rows],
        "gemm_tunings": [row["gemm_tunings"] for row in rows],
        "same_choices": not (others := _differing([row["chosen"] for row in rows])),
        "other_choices": others,
    }
    if report is not None:
        names = ("requests", "compiles", "graphs", "fallbacks_total", "fallbacks", "workers", "workers_with_gpu")
        found |= {name: report[name] for name in names if name in report}
    return found


def _differing(chosen: Sequence[Mapping[str, str]]) -> dict[str, list[str | None]]:
    """What ranks chose for kernels, by name, where they did not all choose the same; None of a rank without the kernel."""
    names = {name for ranks in chosen for name in ranks}
    by_name = {name: [ranks.get(name) for ranks in chosen] for name in sorted(names)}
    return {name: choices for name, choices in by_name.items() if len(set(choices)) > 1}


def _trained_alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def outcomes(job: dict[str, Any]) -> list[Any]:
        return [(row["losses"], row["weights"]) for row in job["ranks"]]

    return outcomes(one) == outcomes(other)


def _compare(bench: Bench, mode: str, result: dict[str, Any], save: Callable[[], None]) -> None:
    """The three jobs of one mode: each is in ``result``, and saved, as soon as it has ended. Plain Inductor comes last: when
    it tunes, it takes longest."""
    found = result["modes"][mode]
    cold = bench.job(mode, shared=True)
    result["card"] = cold["ranks"][0]["card"]
    found["cold"] = _summary(cold)
    save()
    second = bench.job(mode, shared=True, empty_path=True)
    found["second"] = _summary(second)
    found["choices_kept"] = [row["chosen"] for row in second["ranks"]] == [row["chosen"] for row in cold["ranks"]]
    found["second_as_cold"] = _trained_alike(second, cold)
    save()
    plain = bench.job(mode, shared=False)
    found["inductor"] = _summary(plain)
    found["losses_as_inductor"] = _trained_alike(cold, plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--modes", nargs="+", default=list(_MODES))
    parser.add_argument("--limit", type=int, default=300, help="seconds that one job may take")
    parser.add_argument("--save", type=Path, help="file that gets the results, anew after each job")
    args = parser.parse_args()
    results: dict[str, Any] = {}
    result: dict[str, Any] = {
        "benchmark": "gpu",
        "machine": machine(),
        "card": "",
        "ranks": args.ranks,
        "modes": results,
    }

    def save() -> None:
        if args.save:
            args.save.write_text(json.dumps(result) + "\n")

    with temporary_folder() as root:
        bench = Bench(root, args)
        for mode in args.modes:
            results[mode] = {}
            try:
                _compare(bench, mode, result, save)
            except subprocess.CalledProcessError as error:
                past = " (past its limit)" if error.returncode == 124 else ""
                results[mode]["failed"] = f"a job ended with exit code {error.returncode}{past}"
            save()
    rows = [(f"{mode}, {name}", json.dumps(found)) for mode, jobs in results.items() for name, found in jobs.items()]
    show(result, rows, as_json=args.json)
    if any("failed" in jobs for jobs in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
