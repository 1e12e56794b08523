"""Python, packages, entry points and variables. Reads metadata only: importing torch takes seconds."""

import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError

from packaging.requirements import Requirement

from inductord.daemon.cli.checks.finding import Finding, fail, ok, warn
from inductord.daemon.cli.variables import unknown

_DISTRIBUTION = "inductord"
_EXTRA = "daemon"
# Always shown; the rest of the packages only when something is wrong with them.
_SHOWN = ("torch", "grpcio", "protobuf")
_HOOK_GROUP = "torch.backends"
_BACKEND_GROUP = "torch_dynamo_backends"


def python() -> Iterator[Finding]:
    """The interpreter. pip refuses one that is too old, so this only tells."""
    yield ok("python", f"{platform.python_version()} ({platform.machine()})")


def packages(
    requires: Callable[[str], list[str] | None] = importlib.metadata.requires,
    version: Callable[[str], str] = importlib.metadata.version,
) -> Iterator[Finding]:
    """Whether each installed package is of a version that inductord's own metadata asks for."""
    try:
        requirements = [Requirement(text) for text in requires(_DISTRIBUTION) or []]
    except PackageNotFoundError:
        yield fail(
            "inductord",
            "imported from a folder, not installed",
            "Install it (pip install 'inductord[daemon]'): PyTorch finds it by its entry points.",
        )
        return
    for requirement in requirements:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": _EXTRA}):
            continue
        if requirement.name.partition("[")[0] == _DISTRIBUTION:
            continue
        yield from _package(requirement, version)


def _package(requirement: Requirement, version: Callable[[str], str]) -> Iterator[Finding]:
    name, wanted = requirement.name, str(requirement.specifier)
    mend = f"pip install '{name}{wanted}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        yield fail(name, "not installed", mend)
        return
    if not requirement.specifier.contains(found, prereleases=True):
        yield fail(name, f"{found}, and inductord needs {wanted}", mend)
    elif name in _SHOWN:
        yield ok(name, found)


def entry_points() -> Iterator[Finding]:
    """Whether PyTorch will find both doors."""
    missing = [
        group
        for group in (_HOOK_GROUP, _BACKEND_GROUP)
        if not importlib.metadata.entry_points(group=group, name=_DISTRIBUTION)
    ]
    if missing:
        yield fail(
            "entry points",
            f"{' and '.join(missing)} not registered",
            "Reinstall: pip install --force-reinstall --no-deps inductord.",
        )
    else:
        yield ok("entry points", f"{_HOOK_GROUP}, {_BACKEND_GROUP}")


def variables(env: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Variables that nothing reads, and those that keep the hook from being called."""
    for name, meant in unknown(env):
        yield warn("variables", f"nothing reads {name}", meant)
    if env.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        yield warn(
            "hook",
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0: PyTorch does not load inductord by itself",
            'Unset it, or write torch.compile(model, backend="inductord") in the script.',
        )
    else:
        yield ok("hook", "PyTorch may load inductord by itself")
