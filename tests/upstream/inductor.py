"""Nothing that passes with plain Inductor is lost through the service: PyTorch's own tests of Inductor.

    pip install expecttest numpy scipy        # what those tests ask for
    python tests/upstream/inductor.py TESTS [--files inductor/test_torchinductor.py] [--every 1] [-k WORD]

TESTS is the folder ``test`` of a PyTorch source of the version that is installed; nothing of it is part of this project. Each
test runs twice, on caches of its own: with plain Inductor and through a daemon, by the hook that ``inductord run`` sets. What
passes with the one and not with the other is run again alone on both sides; what then still differs is lost, and listed. With
``--keep`` results stay in a folder, and a run that was ended goes on where it was. Hours for all; no part of ``make test``.
"""

import argparse
import collections
import contextlib
import importlib.metadata
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.compiler import remember_compiles
from support.daemon import DaemonProcess, running_daemon, share_prepared
from support.training import Ended, Running, environment

_JOB = Path(__file__).with_name("_suite.py")
_FILES = (
    "inductor/test_torchinductor.py",
    "inductor/test_torchinductor_dynamic_shapes.py",
    "inductor/test_cpu_repro.py",
    "inductor/test_control_flow.py",
    "inductor/test_auto_functionalize.py",
    "inductor/test_inplacing_pass.py",
    "inductor/test_pattern_matcher.py",
    "inductor/test_compiled_optimizers.py",
    "inductor/test_unbacked_symints.py",
    "inductor/test_inductor_freezing.py",
    "inductor/test_mkldnn_pattern_matcher.py",
    "inductor/test_foreach.py",
    "inductor/test_compiled_autograd.py",
    "inductor/test_flex_attention.py",
    "inductor/test_custom_post_grad_passes.py",
    "inductor/test_custom_lowering.py",
)
_A_PROCESS = 50
"""Tests that one process runs: PyTorch's tests leave things behind, and a crash takes the process along."""
_PATIENCE_S = 900.0
"""A test that takes longer counts as hung. Some take minutes on a machine that does many things at once."""
_SIDES = ("inductor", "inductord")

_NO_PROBES = {"TORCHINDUCTOR_VEC_ISA_OK": "1"}
"""What vector units the CPU names are taken to work: else each process would import PyTorch for each of them to try it."""

Outcome = Mapping[str, Any]


def _outcomes(rows: str) -> tuple[dict[str, Outcome], str | None]:
    """What became of each test, and the test that began and did not end."""
    found, running = {}, None
    for row in map(json.loads, (line for line in rows.splitlines() if line.startswith("{"))):
        running = row.get("begins")
        if running is None:
            found[row.pop("test")] = row
    return found, running


class Side:
    """One of the two ways. ``known``: what became of each test so far; ``ended``: the processes that ran them."""

    def __init__(self, name: str, tests: Path, work: Path, keep: Path, variables: Mapping[str, str]) -> None:
        self._tests, self._work, self._variables = tests, work, variables
        self._kept = keep / f"{name}.jsonl"
        self._log = keep / f"{name}.log"
        self.known = _outcomes(self._kept.read_text())[0] if self._kept.exists() else {}
        self.ended: list[Ended] = []

    def run(self, ids: Sequence[str]) -> None:
        """Find out about those of these tests that are not known."""
        while missing := [test for test in ids if test not in self.known]:
            file = missing[0].split("::")[0]
            found = self.once([test for test in missing if test.startswith(f"{file}::")][:_A_PROCESS])
            with self._kept.open("a") as kept:
                kept.writelines(json.dumps({"test": test, **outcome}) + "\n" for test, outcome in found.items())
            self.known |= found
            print(
                f"{self._kept.stem}: {len(ids) - len(missing) + len(found)} of {len(ids)}", file=sys.stderr, flush=True
            )

    def once(self, ids: Sequence[str]) -> dict[str, Outcome]:
        """One process that runs some tests of one file. After a crash or a hang, those that it did not come to are left out."""
        with tempfile.TemporaryDirectory(prefix="suite-", dir=self._work, ignore_cleanup_errors=True) as name:
            outcomes = Path(name, "outcomes")
            outcomes.write_text("".join(f"{test}\n" for test in ids))
            job = _start(self._tests, outcomes, self._log, ids[0].split("::")[0], self._variables)
            try:
                hung = _watch(job, outcomes)
            except BaseException:
                job.close()
                raise
            self.ended.append(job.finish())
            found, running = _outcomes(outcomes.read_text())
        if running is not None:
            found[running] = {"outcome": "hung" if hung else f"crashed ({self.ended[-1].code})"}
        return found or {test: {"outcome": "not run"} for test in ids}


def _start(tests: Path, outcomes: Path, log: Path, file: str, variables: Mapping[str, str]) -> Running:
    # -P: else this very file would be found as the package ``inductor`` of PyTorch's tests.
    command = [sys.executable, "-P", str(_JOB), *map(str, (tests, outcomes, log)), file]
    address = variables.get("INDUCTORD_ADDRESS")
    return Running(command, environment(outcomes.parent, address, **_NO_PROBES, **variables))


def _watch(job: Running, outcomes: Path) -> bool:
    """Wait for a job to end, or end it when it writes nothing for long; whether that was so."""
    size, since = 0, time.monotonic()
    while job.process.poll() is None:
        time.sleep(0.2)
        if (now := outcomes.stat().st_size) != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_S:
            job.process.kill()
            return True
    return False


def _tests_of(file: str, tests: Path, work: Path) -> list[str]:
    """The identifiers of a file's tests, in its order."""
    with tempfile.TemporaryDirectory(prefix="suite-", dir=work, ignore_cleanup_errors=True) as name:
        outcomes, log = Path(name, "outcomes"), Path(name, "log")
        outcomes.touch()
        _start(tests, outcomes, log, file, {}).finish()
        if not (found := outcomes.read_text().splitlines()):
            print(f"{file} has no tests here:\n{log.read_text()[-2000:]}", file=sys.stderr)
        return found


def _passed(side: Mapping[str, Outcome]) -> set[str]:
    return {test for test, outcome in side.items() if outcome["outcome"] == "passed"}


@contextlib.contextmanager
def _daemon(work: Path) -> Iterator[DaemonProcess]:
    (work / "prepared").mkdir(exist_ok=True)
    share_prepared(work / "prepared")
    remember_compiles(work / "cxx")
    settings = {"worker_command": f"{sys.executable} -m inductord.worker", "max_workers": 1}
    with (
        tempfile.TemporaryDirectory(prefix="daemon-", dir=work) as folder,
        running_daemon(Path(folder), _NO_PROBES, **settings) as daemon,
    ):
        yield daemon


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path, help="PyTorch's folder test")
    parser.add_argument("--files", nargs="+", default=_FILES, metavar="FILE", help="below that folder")
    parser.add_argument("--every", type=int, default=1, help="take each n-th test")
    parser.add_argument("-k", metavar="REGEX", default="", help="take tests whose name has this")
    parser.add_argument(
        "--quick", action="store_true", help="with plain Inductor, run only what does not pass through the daemon"
    )
    parser.add_argument("--side", choices=_SIDES, help="run this one only; what is kept of the other is compared")
    parser.add_argument("--regions", default="off", help="INDUCTORD_REGIONS of the one through the daemon")
    parser.add_argument("--keep", type=Path, help="a folder for results")
    return parser.parse_args()


def main() -> None:
    args = _arguments()
    if "inductord" not in importlib.metadata.entry_points(group="torch.backends").names:
        sys.exit("inductord is not installed in this environment, so no test would go through it: pip install .")
    with contextlib.ExitStack() as stack:
        work = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="suite-")))
        work.mkdir(parents=True, exist_ok=True)
        work = work.resolve()
        daemon = stack.enter_context(_daemon(work))
        through = {"INDUCTORD_ADDRESS": daemon.address, "INDUCTORD_REGIONS": args.regions}
        plain, ours = (
            Side(name, args.tests, work, work, variables) for name, variables in zip(_SIDES, ({}, through), strict=True)
        )
        ids = []
        for file in args.files:
            ids += [test for test in _tests_of(file, args.tests, work) if re.search(args.k, test)][:: args.every]
        if args.side != "inductor":
            ours.run(ids)
        if args.side != "inductord":
            plain.run([test for test in ids if not args.quick or ours.known[test]["outcome"] != "passed"])
        here, there = ({test: side.known[test] for test in ids if test in side.known} for side in (plain, ours))
        lost: dict[str, Outcome] = {}
        for test in sorted(_passed(here) & there.keys() - _passed(there)):
            alone, again = plain.once([test])[test], ours.once([test])[test]
            if alone["outcome"] == "passed" and again["outcome"] != "passed":
                lost[test] = again
        compiles = daemon.status().totals.compiles
    for test, outcome in lost.items():
        print(test, json.dumps(outcome, indent=2))
    print(_table(ids, None if args.quick else here, there, lost))
    print(
        json.dumps(
            {
                "tests": len(ids),
                "pass_with_inductor": None if args.quick else len(_passed(here)),
                "pass_with_inductord": len(_passed(there)),
                "lost": sorted(lost),
                "gained": sorted(_passed(there) & here.keys() - _passed(here)),
                "compiles": compiles,
                "requests": sum(ended.count("requests") for ended in ours.ended),
                "fallbacks": dict(
                    sum((collections.Counter(ended.fallbacks) for ended in ours.ended), collections.Counter())
                ),
            }
        )
    )


def _table(
    ids: Sequence[str], here: Mapping[str, Outcome] | None, there: Mapping[str, Outcome], lost: Mapping[str, Outcome]
) -> str:
    """A line a file. ``here``: None when it is not known of all tests."""
    lines = ["| file | tests | pass with inductor | with inductord | lost |", "| --- | --- | --- | --- | --- |"]
    for file in dict.fromkeys(test.split("::")[0] for test in ids):

        def own(tests: Iterable[str], file: str = file) -> int:
            return sum(test.startswith(f"{file}::") for test in tests)

        plain = "–" if here is None else own(_passed(here))
        lines.append(f"| `{file}` | {own(ids)} | {plain} | {own(_passed(there))} | {own(lost)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
