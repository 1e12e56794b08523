"""An accelerator as a rank describes it, for workers that have none. No torch.

The description is part of the key: two ranks share an artifact when their devices are of one model, under one runtime.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from functools import cached_property

from inductord.v1.payload_pb2 import Accelerator as Message

Value = bool | int | float | str


class DescriptionError(ValueError):
    """Bytes that describe no accelerator."""


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """``type``: PyTorch's name of the kind of device; ``arch``: what Triton calls the target, e.g. ``"90"``; ``runtime``:
    what PyTorch was built for, e.g. ``"cuda 13.0"``; ``properties``: as PyTorch names them, memory in bytes, of the model
    and not of one card; ``count``: how many the rank sees, which is no part of the identity."""

    type: str
    name: str
    arch: str
    runtime: str
    properties: Mapping[str, Value]
    count: int = 1

    @cached_property
    def identity(self) -> str:
        """One line for people and keys, e.g. ``"NVIDIA H100 80GB HBM3 90 cuda 13.0 #0a1b2c3d4e5f"``."""
        described = json.dumps(dict(self.properties), sort_keys=True)
        return f"{self.name} {self.arch} {self.runtime} #{hashlib.sha256(described.encode()).hexdigest()[:12]}"

    def __hash__(self) -> int:
        return hash((self.identity, self.type, self.count))

    def message(self) -> Message:
        """As it travels."""
        return Message(
            type=self.type,
            name=self.name,
            arch=self.arch,
            runtime=self.runtime,
            count=self.count,
            properties=json.dumps(dict(self.properties), sort_keys=True),
        )


def from_message(message: Message) -> Accelerator:
    """The description in a message.

    Raises:
        DescriptionError: its properties are no JSON object of plain values.
    """
    try:
        properties = json.loads(message.properties)
    except ValueError as error:
        raise DescriptionError(f"the properties of {message.name!r} are no JSON: {error}") from error
    if not isinstance(properties, dict) or not all(isinstance(v, (bool, int, float, str)) for v in properties.values()):
        raise DescriptionError(f"the properties of {message.name!r} are no plain values")
    return Accelerator(message.type, message.name, message.arch, message.runtime, properties, message.count)
