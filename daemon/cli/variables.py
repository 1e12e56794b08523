"""Variables ``INDUCTORD_…`` that nothing reads: most are misspelt, and would be ignored in silence."""

import re
from collections.abc import Iterator, Mapping

from inductord.compiler.security import VARIABLES as CONNECTION
from inductord.compiler.settings import VARIABLES as RANK
from inductord.daemon.cli.remarks import remark
from inductord.daemon.config import ENV_PREFIX, DaemonConfig, suggestion

# All have the beginning in common.
_LIKENESS = 0.85
# Kubernetes sets these for a service of our name.
_OF_A_SERVICE = re.compile(r"(SERVICE|PORT)(_.*)?")


def remark_unknown(env: Mapping[str, str]) -> None:
    """Say on stderr which they are."""
    for name, meant in unknown(env):
        remark(f"nothing reads the variable {name}. {meant}")


def unknown(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name of each such variable, and what may have been meant."""
    known = {ENV_PREFIX + name.upper() for name in DaemonConfig.model_fields} | RANK | CONNECTION
    for name in sorted(env.keys() - known):
        rest = name.removeprefix(ENV_PREFIX)
        if rest != name and not _OF_A_SERVICE.fullmatch(rest):
            yield name, suggestion(name, known, _LIKENESS).strip()
