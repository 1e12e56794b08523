"""Versions of what peers exchange. Torch-free: the daemon compares them too."""

from inductord import __version__
from inductord.v1.compiler_pb2 import Version

PROTOCOL = 1
"""Changes when peers of both sides can no longer talk. Additions to the protos do not change it."""

KEY_FORMAT = 5
"""Changes with what goes into a key or how graphs and artifacts are packed. Old entries are then never found again."""


def this_version() -> Version:
    """The version message of this release."""
    return Version(protocol=PROTOCOL, release=__version__, key_format=KEY_FORMAT)
