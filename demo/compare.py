"""The main job, measured: four ranks train with plain Inductor, then through inductord, each with cold caches.

    python demo/compare.py [--pool ray] [--ranks 4] [--steps 20] [--layers 4]

The last line of output is one JSON object. CPU seconds are those of all processes of a side, daemon and workers included.
Seconds of the first step are the slowest rank's, from the first call of the compiled model to the end of its first backward.
"""

import argparse
import dataclasses
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TRAIN = Path(__file__).with_name("train.py")
_READY_TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What one side did. ``losses``: by rank, exact; ``first_step_s``: of the slowest rank; ``report``: of inductord."""

    losses: list[list[str]]
    first_step_s: float
    cpu_s: float
    report: Mapping[str, Any]


def _environment(folder: Path) -> dict[str, str]:
    """Caches and temporary files below a new folder: nothing is warm."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("INDUCTORD", "TORCHINDUCTOR_"))}
    for name in ("tmp", "inductor", "triton", "runtime"):
        (folder / name).mkdir(mode=0o700)
    env |= {
        "TMPDIR": str(folder / "tmp"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return env


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _torchrun(args: argparse.Namespace, out: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks)),
        *(str(TRAIN), "--steps", str(args.steps), "--layers", str(args.layers), "--seed", str(args.seed)),
        *("--out", str(out)),
    ]


def _read(out: Path, ranks: int, cpu_s: float, report: Mapping[str, Any]) -> Side:
    rows = [json.loads((out / f"rank-{rank}.json").read_text()) for rank in range(ranks)]
    return Side([row["losses"] for row in rows], max(row["first_step_s"] for row in rows), cpu_s, report)


def with_inductor(args: argparse.Namespace, folder: Path) -> Side:
    """The job on plain Inductor."""
    before = _cpu_seconds()
    env = _environment(folder)
    subprocess.run(_torchrun(args, folder / "out"), env={**env, "INDUCTORD": "0"}, check=True)
    return _read(folder / "out", args.ranks, _cpu_seconds() - before, {})


def with_inductord(args: argparse.Namespace, folder: Path) -> Side:
    """The same job through a daemon of its own."""
    before = _cpu_seconds()
    env = _environment(folder)
    address = f"unix:{folder / 'runtime' / 'd.sock'}"
    report = folder / "report.json"
    serve = [*_inductord("serve"), "--address", address, "--store", str(folder / "store"), "--pool", args.pool]
    with (folder / "daemon.log").open("wb") as log:
        daemon = subprocess.Popen(serve, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        _wait_until_ready(daemon, folder / "daemon.log")
        job = [
            *_inductord("run"),
            "--address",
            address,
            "--report-file",
            str(report),
            "--",
            *_torchrun(args, folder / "out"),
        ]
        subprocess.run(job, env=env, check=True)
        subprocess.run([*_inductord("stop"), "--address", address], env=env, check=True)
        daemon.wait(timeout=_READY_TIMEOUT_S)
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait()
    return _read(folder / "out", args.ranks, _cpu_seconds() - before, json.loads(report.read_text()))


def _inductord(command: str) -> Sequence[str]:
    return (str(Path(sys.executable).with_name("inductord")), command)


def _wait_until_ready(daemon: subprocess.Popen[str], log: Path) -> None:
    assert daemon.stdout is not None
    if not daemon.stdout.readline():  # `serve` prints one line when it answers
        raise SystemExit(f"the daemon did not start:\n{log.read_text()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="local")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    sides = {}
    for name, run in (("inductor", with_inductor), ("inductord", with_inductord)):
        print(f"--- {args.ranks} ranks with {name}, cold caches", flush=True)
        folder = Path(tempfile.mkdtemp(prefix="ind-"))
        try:
            sides[name] = run(args, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    plain, shared = sides["inductor"], sides["inductord"]
    print(
        json.dumps(
            {
                "ranks": args.ranks,
                "graphs": shared.report["graphs"],
                "compiles": shared.report["compiles"],
                "requests": shared.report["requests"],
                "fallbacks": shared.report["fallbacks_total"],
                "losses_equal": plain.losses == shared.losses,
                "first_step_s": {name: round(side.first_step_s, 1) for name, side in sides.items()},
                "cpu_s": {name: round(side.cpu_s, 1) for name, side in sides.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
