"""Store records as protocol messages: the one place where they are translated."""

from collections.abc import Mapping

from inductord.daemon.store import Record
from inductord.v1.admin_pb2 import Entry


def entry_of(record: Record, key_parts: Mapping[str, str] | None = None) -> Entry:
    """The message for one record, with the parts of its key when they are given."""
    return Entry(
        key=record.key,
        kind=record.meta.kind,
        size=record.size,
        sha256=record.sha256,
        created_unix=record.created,
        used_unix=record.used,
        uses=record.uses,
        compile_seconds=record.meta.compile_seconds,
        toolchain=record.meta.toolchain,
        key_parts=key_parts,
        nodes=record.meta.nodes,
        job=record.meta.job,
    )
