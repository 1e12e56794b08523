"""A daemon of another release: ``other_version.py PROTOCOL`` or ``other_version.py KEY_FORMAT`` serves with that number
raised by one."""

import runpy
import sys

from inductord.compiler import versions

if __name__ == "__main__":
    name = sys.argv.pop()
    setattr(versions, name, getattr(versions, name) + 1)
    runpy.run_module("inductord.daemon", run_name="__main__")
