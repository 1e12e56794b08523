"""Operators that a job registered: part of the key by their schema, declared on workers for the time of one compile."""

from pathlib import Path

import pytest
from support.training import python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_a_worker_declares_what_it_lacks_and_computes_the_key_of_the_rank(tmp_path: Path) -> None:
    seen = train(tmp_path, python("operators.py"), None).result
    assert seen["worker"] == seen["rank"]
    assert (seen["there before"], seen["there after"]) == (False, False)
    # Of a call that the rank noted, the result is known; of any other it is not guessed.
    assert seen["as noted"] == [8]
    assert "is noted nowhere in the graph" in seen["of another size"]
    for change in ("other schema", "other tags"):
        differing = {name for name, part in seen["rank"].items() if seen[change].get(name) != part}
        assert differing == {"operators"}, change
