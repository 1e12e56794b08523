"""What ``import torch`` does where inductord is installed: nothing, until it is asked."""

from pathlib import Path
from typing import Any

import pytest
from support.training import Ended, python, train

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NOBODY = "unix:/nonexistent/d.sock"
HOOK = ["inductord", "inductord.compiler", "inductord.compiler.hook"]


def look(folder: Path, **variables: str | None) -> Ended:
    return train(folder, python("hook.py"), NOBODY, **variables)


def looks_untouched(seen: dict[str, Any]) -> bool:
    """Whether Inductor's module is to ``inspect``, ``pickle`` and friends what it always was."""
    return bool(
        seen["loader"] == seen["module_loader"] == "SourceFileLoader"
        and seen["spec_name"] == "torch._inductor.compile_fx"
        and seen["origin"]
        and seen["source"].startswith("from __future__")
        and seen["function_source"] == "def compile_fx"
    )


def test_unasked_it_imports_itself_and_nothing_else(tmp_path: Path) -> None:
    ended = look(tmp_path, INDUCTORD=None)
    seen = ended.result
    assert (seen["before"], seen["after"], seen["inductor_before"]) == (HOOK, HOOK, False)
    assert "_AfterImport" not in seen["finders"]
    assert seen["seam"] == "torch._inductor.compile_fx"
    assert looks_untouched(seen)
    assert (ended.err, ended.reports) == ("", [])


def test_asked_it_waits_until_inductor_is_imported(tmp_path: Path) -> None:
    ended = look(tmp_path, INDUCTORD="1")
    seen = ended.result
    assert (seen["before"], seen["inductor_before"]) == (HOOK, False)
    assert seen["seam"] == "inductord.compiler.adapter.seam"
    assert "inductord.compiler.offload" in seen["after"]
    assert looks_untouched(seen)
    # Nobody was at the address, and nobody needed to be: nothing was compiled.
    assert (ended.err, ended.fallbacks, ended.count("requests")) == ("", {}, 0)


def test_a_setting_that_cannot_be_turns_it_off_and_says_so(tmp_path: Path) -> None:
    ended = look(tmp_path, INDUCTORD="1", INDUCTORD_MAX_WAIT="soon")
    assert ended.result["seam"] == "torch._inductor.compile_fx"
    assert "inductord is off in this process: INDUCTORD_MAX_WAIT='soon'" in ended.err
    assert "Traceback" not in ended.err
