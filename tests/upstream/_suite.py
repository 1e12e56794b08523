"""Runs files of PyTorch's own tests and writes down what becomes of each test: the job of ``inductor.py``. It knows nothing of
inductord.

python -P _suite.py TESTS OUTCOMES LOG FILE [FILE ...]

TESTS: the folder ``test`` of PyTorch. OUTCOMES: a file with an identifier of a test a line; to it results are appended, two
lines of JSON a test, when it begins and when it is over. If it is empty, the identifiers of all tests in FILEs are written.
LOG: a file for what is printed.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_SAID = 600


class Heard(logging.Handler):
    """What is said of graphs that the rank compiled; without the package that says so, nothing."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[str] = []
        logger = logging.getLogger("inductord")
        logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take one record."""
        if "is compiled by this rank" in (message := record.getMessage()):
            self.said.append(message[:_SAID])


class Outcomes:
    """Appends what becomes of each test to a file."""

    def __init__(self, path: Path, tests: Path) -> None:
        self._heard = Heard()
        self._path = path
        self._tests = str(tests)
        self._wanted = set(path.read_text().split("\n")) - {""}
        self._found: dict[str, Any] = {}

    def _write(self, **row: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._wanted:
            items[:] = [item for item in items if item.nodeid in self._wanted]
            return
        self._path.write_text("".join(item.nodeid + "\n" for item in items))
        items.clear()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._found = {"outcome": "passed"}
        self._heard.said.clear()
        self._write(begins=nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            self._found = {"outcome": "failed"} | self._about(call.excinfo)
        elif report.skipped and self._found["outcome"] == "passed":
            self._found = {"outcome": "xfailed" if hasattr(report, "wasxfail") else "skipped"}
        return report

    def _about(self, error: pytest.ExceptionInfo[BaseException] | None) -> dict[str, str]:
        """What was raised, and the last line of the test itself that led there."""
        if error is None:
            return {"error": "unexpected success", "said": "", "line": ""}
        frames = traceback.extract_tb(error.tb)
        own = [frame for frame in frames if frame.filename.startswith(self._tests)]
        line = f"{own[-1].name}:{own[-1].lineno}: {own[-1].line}" if own else ""
        return {"error": error.type.__name__, "said": str(error.value)[:_SAID], "line": line}

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        compiled_here = {"compiled_here": self._heard.said} if self._heard.said else {}
        self._write(test=nodeid, **self._found, **compiled_here)


def main() -> None:
    tests, outcomes, log = (Path(name).absolute() for name in sys.argv[1:4])
    os.chdir(tests)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # PyTorch's conftest is made for an older pytest; of its settings none changes what a test does.
    quiet = ["-q", "--noconftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tests), "--tb=short"]
    sys.path.insert(0, str(tests))
    sys.exit(pytest.main([*quiet, *sys.argv[4:]], plugins=[Outcomes(outcomes, tests)]))


if __name__ == "__main__":
    main()
