"""The key of a graph: a digest of everything that decides the generated code, and of nothing else.

It is made of named parts, so that ``inductord explain`` can say which of them differs between two keys. Rank and worker
compute it alike; the worker refuses a graph that was sent under another key.
"""

import dataclasses
import hashlib
import re
from collections.abc import Mapping

from inductord.compiler.versions import KEY_FORMAT
from inductord.v1.compiler_pb2 import Toolchain

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """``digest``: SHA-256, 64 hex digits. ``parts``: what it was made of, by name, digests cut to 16 digits: they are for
    people, who compare them."""

    digest: str
    parts: Mapping[str, str]


def make_key(
    fingerprint: Mapping[str, str],
    ambient: Mapping[str, object],
    toolchain: Toolchain,
    words: Mapping[str, str] | None = None,
) -> Key:
    """The key over PyTorch's account of the graph, the settings of the process, and the toolchain.

    The order in which parts are given does not matter. ``words`` stand among the parts for people, and decide nothing.
    """
    parts = dict(fingerprint)
    parts |= {f"process.{name}": str(value) for name, value in ambient.items()}
    parts |= {f"toolchain.{field.name}": str(value) for field, value in toolchain.ListFields()}
    parts["format"] = str(KEY_FORMAT)
    digest = hashlib.sha256()
    for name in sorted(parts):
        for text in (name, parts[name]):
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
    return Key(digest.hexdigest(), {name: _shown(part) for name, part in parts.items()} | dict(words or {}))


def _shown(part: str) -> str:
    return part[:16] if _DIGEST.fullmatch(part) else part
