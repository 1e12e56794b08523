"""Keys of real graphs: whatever changes the code changes the key, and nothing else does."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support.training import Running, environment, python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

# What is changed, and the parts of the key that tell it.
DIFFERENT = {
    "dtype": {"example_inputs"},
    "shape": {"example_inputs"},
    "stride": {"example_inputs"},
    "constant": {"gm"},
    "operator": {"gm"},
    "alias of an input": {"gm"},
    "dynamic": {"size_hints"},
    "dynamic, other size hint": {"size_hints"},
    "default dtype": {"process.default_dtype"},
    "deterministic": {"process.deterministic"},
    "threads": {"process.num_threads"},
    "config": {"config.epilogue_fusion", "inductor_config"},
    "nested config": {"config.cpp.simdlen", "inductor_config"},
    "donated none": {"donated_inputs"},
    "donated first": {"donated_inputs"},
    "inference": {"fx_kwargs"},
    "inputs to check": {"inputs_to_check"},
}
SAME = [
    "again",
    "same compiled again",
    "same after the wire",
    "same rank",
    "same folder",
    "same cache folder",
    "same compile threads",
    "same graph id",
]


@dataclasses.dataclass(frozen=True)
class Seen:
    """Keys and their parts by what was changed, of two processes that hash text differently."""

    keys: dict[str, str]
    of_passes: dict[str, str]
    parts: dict[str, dict[str, str]]
    elsewhere: dict[str, str]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    def start(name: str, **variables: str) -> Running:
        return Running(python("keys.py"), environment(tmp_path_factory.mktemp(name), None, **variables))

    one = start("one", PYTHONHASHSEED="1", RANK="0", LOCAL_RANK="0", WORLD_SIZE="4")
    try:
        other: dict[str, Any] = (
            start("other", PYTHONHASHSEED="2", RANK="3", LOCAL_RANK="3", WORLD_SIZE="4").finish().result
        )
    finally:
        ended = one.finish()
    return Seen(**ended.result, elsewhere=other["keys"])


def test_no_case_is_left_out(seen: Seen) -> None:
    assert seen.keys.keys() == {"base", "dynamic after the wire", *DIFFERENT, *SAME}


@pytest.mark.parametrize("change", DIFFERENT)
def test_what_changes_the_code_changes_the_key(seen: Seen, change: str) -> None:
    assert seen.keys[change] != seen.keys["base"]
    base, changed = seen.parts["base"], seen.parts[change]
    differing = {name for name in base.keys() | changed.keys() if base.get(name) != changed.get(name)}
    assert differing >= DIFFERENT[change]


def test_different_changes_make_different_keys(seen: Seen) -> None:
    assert len({seen.keys[change] for change in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("circumstance", SAME)
def test_what_does_not_change_the_code_does_not_change_the_key(seen: Seen, circumstance: str) -> None:
    assert seen.keys[circumstance] == seen.keys["base"]


def test_a_worker_computes_the_key_of_symbolic_shapes_that_the_rank_computed(seen: Seen) -> None:
    assert seen.keys["dynamic after the wire"] == seen.keys["dynamic"]


def test_passes_of_the_user_count_by_their_identity_and_travel_with_the_graph(seen: Seen) -> None:
    names = [name for name in seen.of_passes if not name.endswith(" after the wire")]
    assert len(names) >= 5
    assert len({seen.keys["base"], *(seen.of_passes[name] for name in names)}) == len(names) + 1
    for name in names:
        assert seen.of_passes[f"{name} after the wire"] == seen.of_passes[name], name


def test_another_rank_of_another_process_computes_the_same_keys(seen: Seen) -> None:
    assert seen.elsewhere == seen.keys


def test_settings_of_a_rank_are_those_under_which_the_worker_compiles(tmp_path: Path) -> None:
    """They are part of the key that both compute, and they travel as JSON."""
    seen = train(tmp_path, python("ambient.py"), None).result
    default = seen["nothing"]["rank"]
    for change, described in seen.items():
        assert described["worker"] == described["rank"], change
        assert described["restored"], change
        assert (described["rank"] == default) == (change == "nothing"), change
    assert len({json.dumps(described["rank"]) for described in seen.values()}) == len(seen)
