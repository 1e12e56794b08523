"""Which values of ``INDUCTORD`` ask for it. What then happens in a rank is for ``integration/test_rank_hook.py``."""

import sys

import pytest

from inductord.compiler import hook

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("1", True),
        (" On ", True),
        ("yes", True),
        ("true", True),
        ("0", False),
        ("", False),
        ("off", False),
        ("2", False),
    ],
)
def test_only_a_yes_is_one(monkeypatch: pytest.MonkeyPatch, value: str, asked: bool) -> None:
    acts: list[str] = []
    for name in ("_set_seam", "_note_lowerings", "_watch_profile"):
        monkeypatch.setattr(hook, name, lambda name=name: acts.append(name))
    monkeypatch.setattr(sys, "meta_path", before := [*sys.meta_path])
    monkeypatch.setenv("INDUCTORD", value)
    finders = len(before)
    hook.autoload()
    # At once for what this process has imported, later for the rest.
    assert (len(acts) + len(sys.meta_path) - finders > 0) == asked
