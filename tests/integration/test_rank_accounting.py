"""What a rank reports of PyTorch's own account: times, recompiles, guards that did not hold, first launches."""

from pathlib import Path

import pytest
from support.training import python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_the_account_follows_what_pytorch_does_and_never_goes_back(tmp_path: Path) -> None:
    seen = train(tmp_path, python("accounting.py"), None).result
    steps = seen["steps"]
    assert {name: (step["recompiles"], step["guard_failures"]) for name, step in steps.items()} == {
        "start": (0, 0),
        "compiled": (0, 0),
        "ran": (0, 0),
        "another type": (1, 1),
        "another rank": (2, 3),  # neither of the two versions fitted
        "reset": (2, 3),
        "again": (3, 4),
    }
    for time in ("dynamo_seconds", "aot_seconds"):
        values = [step[time] for step in steps.values()]
        assert values[0] == 0
        assert values == sorted(values)
        assert values[1] == values[2], "running costs no compile time"
        assert len(set(values)) == len(steps) - 2  # it grew with each compile, and with nothing else
    assert (seen["launches"], seen["calls"], seen["results"]) == (1, 3, [[0], [1], [2]])
