"""What a test needs of the machine. Where it is absent the test is skipped with the reason; where everything was promised
(``INDUCTORD_TEST_ALL=1``, as CI sets it) that is a failure, so that nothing is quietly left out."""

import importlib.util
import os
import shutil

import pytest


def needs(present: bool, what: str) -> None:
    """Go on when it is there. ``what``: what is missing, and how to get it."""
    if present:
        return
    if os.environ.get("INDUCTORD_TEST_ALL") == "1":
        pytest.fail(f"INDUCTORD_TEST_ALL=1, but this test needs {what}")
    pytest.skip(f"needs {what}")


def needs_module(name: str) -> None:
    """Go on when the Python package can be imported. It is not imported here."""
    needs(importlib.util.find_spec(name) is not None, f"the Python package {name} (pip install 'inductord[dev]')")


def needs_program(name: str, package: str) -> None:
    """Go on when the program is on PATH. ``package``: the Debian package that has it."""
    needs(shutil.which(name) is not None, f"the program {name} (Debian: apt-get install {package})")
