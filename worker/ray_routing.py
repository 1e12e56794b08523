"""Which workers of a cluster fit a graph: resources, node labels, and the check of what a worker says of itself. Pure.

Nodes are labelled by whoever sets them up, since nobody can ask a node that the autoscaler has not started yet. Without labels
a cluster is taken for uniform; an actor whose toolchain does not fit is found out before it gets a graph.
"""

import dataclasses
import hashlib
import re
from collections.abc import Sequence

from inductord.v1.compiler_pb2 import Toolchain

LABEL_PREFIX = "inductord.io/"
PARTS = ("torch", "python", "cpu", "cxx", "triton", "accelerator")
_LONGEST_VALUE = 63
_DIGEST = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A kind of worker: ``toolchain`` is serialised. ``needs_device``: it holds a device of its own."""

    toolchain: bytes
    needs_device: bool


def label_value(text: str) -> str:
    """``text`` as a Ray or Kubernetes label can hold it: other characters become ``-``, what is too long ends in a digest."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")
    if len(plain) <= _LONGEST_VALUE:
        return plain
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{plain[: _LONGEST_VALUE - _DIGEST - 1]}-{digest}"


def label_selector(toolchain: Toolchain, parts: Sequence[str]) -> dict[str, str]:
    """The labels that a node must have, for those ``parts`` by which nodes are labelled. What a graph leaves open is free."""
    return {f"{LABEL_PREFIX}{part}": label_value(value) for part in parts if (value := getattr(toolchain, part))}


def misfit(wanted: Toolchain, has: Toolchain) -> str:
    """Why a worker that compiles under ``has`` cannot serve; empty when it can. What either leaves open fits: a worker without
    a device leaves the accelerator open."""
    differing = [
        f"{part} {getattr(has, part)!r}, not {getattr(wanted, part)!r}"
        for part in PARTS
        if getattr(wanted, part) and getattr(has, part) and getattr(wanted, part) != getattr(has, part)
    ]
    return f"a worker of the cluster has {'; '.join(differing)}" if differing else ""
