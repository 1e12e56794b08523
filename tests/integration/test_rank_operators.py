"""Operators that a job registered: part of the key by their schema, declared on workers for the time of one compile."""

from pathlib import Path

import pytest
from support.training import python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_a_worker_declares_what_it_lacks_and_computes_the_key_of_the_rank(tmp_path: Path) -> None:
    seen = train(tmp_path, python("operators.py"), None).result
    for job in ("rank", "side effect", "ordered", "out variant"):
        assert seen[f"worker: {job}"] == seen[job]
    assert (seen["there before"], seen["there after"], seen["marked after"]) == (False, False, 0)
    # A call whose result nobody uses is left out, unless the job said that it does more.
    assert (seen["impure: rank"], seen["impure: side effect"]) == ([], ["inductord_jobs.scaled.default"])
    # From torch 2.12 on, Inductor calls the variant that is given its memory, where there is one.
    assert (seen["overloads: rank"], seen["overloads: out variant"]) == (["default"], ["default", "out"])
    # Of a call that the rank noted, the result is known; of any other it is not guessed.
    assert seen["as noted: rank"] == seen["as noted: ordered"] == [8]
    assert (seen["effect: rank"], seen["effect: ordered"], seen["effect after"]) == (
        "None",
        "EffectType.ORDERED",
        "None",
    )
    assert "is noted nowhere in the graph" in seen["of another size"]
    for change in ("other schema", "other tags", "side effect", "out variant"):
        differing = {name for name, part in seen["rank"].items() if seen[change].get(name) != part}
        assert differing == {"operators"}, change
