"""What a client asks for, checked. Past this point keys are well-formed, versions fit and every size is bounded.

Pure. The daemon does not look into what the bytes of a graph say, so nothing here does either.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from inductord.compiler.versions import KEY_FORMAT, PROTOCOL
from inductord.daemon.errors import Incompatible, InvalidRequest
from inductord.daemon.tenancy import OWNER, scoped, split
from inductord.v1.compiler_pb2 import GraphKind, OpenCompile, RankStats, RankTrace, Requester, Toolchain, Version
from inductord.v1.cut_pb2 import GraphCut

MAX_JOB_LENGTH = 128
MAX_KEY_PARTS = 256
MAX_KEY_PARTS_BYTES = 64 * 1024
MAX_TOOLCHAIN_BYTES = 8 * 1024
MAX_SECONDS = 1e9
MAX_UNIX = 1e11
MAX_SPANS = 1000
MAX_SPAN_BYTES = 1024
MAX_HOST_LENGTH = 256
MAX_CUTS = 16
MAX_CUT_BYTES = 32 * 1024

_KEY = re.compile(r"[0-9a-f]{64}")
_KEY_PREFIX = re.compile(r"[0-9a-f]{6,64}")


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One request for one artifact. ``key``: scoped to the tenant that asks, see ``tenancy``. ``traceparent``: W3C trace
    context of the request, if it is traced."""

    key: str
    toolchain: Toolchain
    kind: GraphKind
    nodes: int
    job: str
    rank: int
    speculative: bool
    key_parts: Mapping[str, str]
    traceparent: str = ""
    needs_device: bool = False

    @property
    def tenant(self) -> str:
        """Who asks."""
        return split(self.key)[0]

    @property
    def plain_key(self) -> str:
        """The key as the rank made it."""
        return split(self.key)[1]


def check_key(key: str) -> str:
    """The key, if it is one.

    Raises:
        InvalidRequest: if it is not 64 lower-case hex digits.
    """
    if not _KEY.fullmatch(key):
        raise InvalidRequest(f"a key has 64 lower-case hex digits; this one has {len(key)} characters: {key[:80]!r}.")
    return key


def check_key_prefix(prefix: str) -> str:
    """The beginning of a key, if it is one.

    Raises:
        InvalidRequest: if it is not 6 to 64 lower-case hex digits.
    """
    if not _KEY_PREFIX.fullmatch(prefix):
        raise InvalidRequest(f"give a key or at least 6 hex digits of its beginning, not {prefix[:80]!r}.")
    return prefix


def check_requester(requester: Requester) -> Requester:
    """The requester, if its job's name is of bounded length.

    Raises:
        InvalidRequest: if it is not.
    """
    if len(requester.job) > MAX_JOB_LENGTH:
        raise InvalidRequest(f"the name of the job has {len(requester.job)} characters; {MAX_JOB_LENGTH} are allowed.")
    return requester


def check_seconds(name: str, value: float) -> float:
    """The time, if it is one. Raises ``InvalidRequest``: one NaN would spoil a total for good."""
    if not 0 <= value <= MAX_SECONDS:
        raise InvalidRequest(f"{name} is {value:g}; from 0 to {MAX_SECONDS:g} makes sense.")
    return value


def check_stats(stats: RankStats) -> RankStats:
    """The report, if its times are numbers that sums survive: one NaN would spoil a total for good.

    Raises:
        InvalidRequest: if one is not finite or longer than any job.
    """
    for field, value in stats.ListFields():
        # NaN fails the comparison.
        if field.name.endswith("_seconds") and not abs(value) <= MAX_SECONDS:
            raise InvalidRequest(f"{field.name} is {value:g}; at most {MAX_SECONDS:g} makes sense.")
    return stats


def check_trace(trace: RankTrace) -> RankTrace:
    """The trace, if it and each of its spans is of bounded size and its times are numbers.

    Raises:
        InvalidRequest: if one is not.
    """
    if len(trace.spans) > MAX_SPANS or len(trace.host) > MAX_HOST_LENGTH:
        raise InvalidRequest(f"a report has at most {MAX_SPANS} spans, not {len(trace.spans)}, of a host with a name.")
    if not abs(trace.clock_ahead_seconds) <= MAX_UNIX:
        raise InvalidRequest(f"no clock is {trace.clock_ahead_seconds:g} seconds ahead.")
    for span in trace.spans:
        if span.ByteSize() > MAX_SPAN_BYTES or len(span.key) not in (0, 32):
            raise InvalidRequest(f"a span has at most {MAX_SPAN_BYTES} bytes and a key of 32, not {span.ByteSize()}.")
        if not 0 <= span.start_unix <= MAX_UNIX:
            raise InvalidRequest(f"a span cannot begin at {span.start_unix:g}.")
        for stage in span.stages:
            if not (0 <= stage.offset_seconds <= MAX_SECONDS and 0 <= stage.seconds <= MAX_SECONDS):
                raise InvalidRequest(f"a stage has from 0 to {MAX_SECONDS:g} seconds, not {stage.seconds:g}.")
    return trace


def check_cuts(cuts: Sequence[GraphCut]) -> Sequence[GraphCut]:
    """The cuts, if they are few and each is of bounded size, with keys that are digests.

    Raises:
        InvalidRequest: if one is not.
    """
    if len(cuts) > MAX_CUTS:
        raise InvalidRequest(f"a report has at most {MAX_CUTS} cuts, not {len(cuts)}.")
    for cut in cuts:
        if cut.ByteSize() > MAX_CUT_BYTES:
            raise InvalidRequest(f"a cut has at most {MAX_CUT_BYTES} bytes, not {cut.ByteSize()}.")
        if any(len(key) != 32 for keys in (cut.keys, *(piece.keys for piece in cut.distinct_pieces)) for key in keys):
            raise InvalidRequest("a key in a cut has 32 bytes.")
    return cuts


def check_version(client: Version) -> None:
    """Raises:
    Incompatible: if the client speaks another protocol or makes other keys.
    """
    for what, theirs, ours in (
        ("protocol", client.protocol, PROTOCOL),
        ("key format", client.key_format, KEY_FORMAT),
    ):
        if theirs != ours:
            raise Incompatible(
                f"the client ({client.release[:32] or 'unknown release'}) has {what} {theirs}, this daemon {what} {ours}. "
                "Install the same release of inductord for both."
            )


def parse_order(message: OpenCompile, tenant: str = OWNER) -> Order:
    """A checked order of ``tenant``.

    Raises:
        Incompatible: for another protocol or key format.
        InvalidRequest: for a malformed key or a field over its bound.
    """
    check_version(message.client)
    requester = check_requester(message.requester)
    parts = dict(message.key_parts)
    weight = sum(len(name) + len(value) for name, value in parts.items())
    if len(parts) > MAX_KEY_PARTS or weight > MAX_KEY_PARTS_BYTES:
        raise InvalidRequest(
            f"the key has {len(parts)} parts of {weight} characters; "
            f"{MAX_KEY_PARTS} parts of {MAX_KEY_PARTS_BYTES} are allowed."
        )
    if message.toolchain.ByteSize() > MAX_TOOLCHAIN_BYTES:
        raise InvalidRequest(f"the toolchain's description is larger than {MAX_TOOLCHAIN_BYTES} bytes.")
    return Order(
        key=scoped(tenant, check_key(message.key)),
        toolchain=message.toolchain,
        kind=message.kind if message.kind in GraphKind.values() else GraphKind.GRAPH_KIND_UNSPECIFIED,
        nodes=message.nodes,
        job=requester.job,
        rank=requester.rank,
        speculative=message.speculative,
        needs_device=message.needs_device,
        key_parts=parts,
    )
