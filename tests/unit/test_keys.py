"""The key over named parts, and its pinned values."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductord.compiler.keys import make_key
from inductord.compiler.versions import KEY_FORMAT
from inductord.v1.compiler_pb2 import Toolchain

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parent.parent / "golden" / "keys.json"
FINGERPRINT = {"gm": "ab" * 32, "example_inputs": "cd" * 32, "size_hints": "[4, 8]"}
AMBIENT: dict[str, object] = {"num_threads": 4, "deterministic": [False, False], "default_dtype": "float32"}
TOOLCHAIN = Toolchain(torch="2.13.0", python="3.11", cpu="x86_64 avx2 #0", cxx="g++ 12 #1", triton="3.5")

_texts = st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=8)


def digest(
    fingerprint: dict[str, str] | None = None, ambient: dict[str, Any] | None = None, toolchain: Toolchain | None = None
) -> str:
    return make_key(FINGERPRINT | (fingerprint or {}), AMBIENT | (ambient or {}), toolchain or TOOLCHAIN).digest


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text())["cases"], ids=lambda case: case["name"])
def test_keys_are_those_that_were_pinned(case: dict[str, Any]) -> None:
    # A change here makes every stored artifact unreachable. It is right only together with a new KEY_FORMAT.
    assert json.loads(GOLDEN.read_text())["key_format"] == KEY_FORMAT, "pin the keys of the new format"
    key = make_key(case["fingerprint"], case["ambient"], Toolchain(**case["toolchain"]))
    assert key.digest == case["digest"]
    assert dict(key.parts) == case["parts"]


@given(_texts, st.randoms())
def test_the_order_of_parts_does_not_matter(parts: dict[str, str], random: Any) -> None:
    shuffled = list(parts.items())
    random.shuffle(shuffled)
    assert make_key(parts, AMBIENT, TOOLCHAIN) == make_key(dict(shuffled), dict(reversed(AMBIENT.items())), TOOLCHAIN)


@given(_texts, _texts)
def test_different_parts_never_make_one_key(one: dict[str, str], other: dict[str, str]) -> None:
    assert (make_key(one, {}, Toolchain()).digest == make_key(other, {}, Toolchain()).digest) == (one == other)


def test_the_border_between_name_and_value_counts() -> None:
    assert make_key({"ab": "c"}, {}, Toolchain()).digest != make_key({"a": "bc"}, {}, Toolchain()).digest


@pytest.mark.parametrize("name", [*FINGERPRINT, "new"])
def test_every_part_of_the_graph_changes_the_key(name: str) -> None:
    assert digest(fingerprint={name: "other"}) != digest()


@pytest.mark.parametrize("name", [*AMBIENT, "new"])
def test_every_setting_of_the_process_changes_the_key(name: str) -> None:
    assert digest(ambient={name: "other"}) != digest()


@pytest.mark.parametrize("name", [field.name for field in Toolchain.DESCRIPTOR.fields])
def test_every_part_of_the_toolchain_changes_the_key(name: str) -> None:
    changed = Toolchain()
    changed.CopyFrom(TOOLCHAIN)
    setattr(changed, name, "other")
    assert digest(toolchain=changed) != digest()


def test_a_setting_is_no_part_of_the_graph() -> None:
    assert make_key({"x": "1"}, {}, Toolchain()).digest != make_key({}, {"x": "1"}, Toolchain()).digest


def test_words_are_shown_and_decide_nothing() -> None:
    """Rank and worker word their configuration differently: what a variable of the job set is at its default there."""
    said = make_key(FINGERPRINT, AMBIENT, TOOLCHAIN, {"config.max_autotune": "True"})
    assert said.digest == digest()
    assert said.parts["config.max_autotune"] == "True"


def test_the_key_has_the_form_that_the_daemon_takes() -> None:
    key = make_key(FINGERPRINT, AMBIENT, TOOLCHAIN)
    assert len(bytes.fromhex(key.digest)) == 32
    assert key.parts["format"] == str(KEY_FORMAT)
    assert key.parts["toolchain.torch"] == "2.13.0"
    assert key.parts["process.num_threads"] == "4"
