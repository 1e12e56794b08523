"""Protocol messages as JSON for scripts.

Protobuf's own JSON form writes 64-bit integers as strings and leaves zeros out, which is a nuisance to every script.
Here integers are numbers, every plain field is present, enums are short lower-case names and bytes are hex.
"""

import re
from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message


def enum_name(enum: EnumDescriptor, number: int) -> str:
    """``forward`` for ``GRAPH_KIND_FORWARD``; the number itself when this release does not know it."""
    value = enum.values_by_number.get(number)
    if value is None:
        return str(number)
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
    return str(value.name).removeprefix(prefix).lower()


def as_json(message: Message) -> dict[str, Any]:
    """Every field of ``message`` by its proto name. Sub-messages and optional fields that are absent are ``None``."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        item = kind.fields_by_name["value"]
        return {str(key): _value(value[key], item) for key in sorted(value)}
    if isinstance(value, str | bytes | int | float | bool | Message):
        if field.has_presence and not message.HasField(field.name):
            return None
        return _value(value, field)
    return [_value(item, field) for item in value]


def _value(value: Any, field: Any) -> Any:
    if isinstance(value, Message):
        return as_json(value)
    if isinstance(value, bytes):
        return value.hex()
    if field.enum_type is not None:
        return enum_name(field.enum_type, value)
    return value
