"""How a status looks to people. Pure: a status in, something for rich to draw out."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from inductord.daemon.cli import output, words
from inductord.daemon.cli.protojson import enum_name
from inductord.v1 import compiler_pb2
from inductord.v1.admin_pb2 import JobSummary, RunningCompile, SharedStoreStatus, Status

_MANY = 12
_KIND = compiler_pb2.GraphKind.DESCRIPTOR
_STATE = compiler_pb2.CompileState.DESCRIPTOR
_STATE_STYLES: Mapping[int, str] = {
    compiler_pb2.COMPILE_STATE_UPLOADING: "cyan",
    compiler_pb2.COMPILE_STATE_QUEUED: "yellow",
    compiler_pb2.COMPILE_STATE_COMPILING: "blue",
}
_GAUGE_CELLS = 10
_AGE_CELLS = 8


def draw(status: Status) -> RenderableType:
    """The whole picture: daemon, pool, store, totals, what is being compiled, the jobs."""
    parts: list[RenderableType] = [_head(status), _facts(status)]
    if status.compiles:
        parts += [Text(), _compiles(list(status.compiles))]
    if status.jobs:
        parts += [Text(), _jobs(list(status.jobs))]
    return Group(*parts)


def line(status: Status) -> str:
    """The same in one line, for a log."""
    pool, totals = status.pool, status.totals
    draining = "draining, " if status.draining else ""
    return (
        f"{draining}{pool.busy}/{pool.max_workers} workers busy, {pool.queued} queued, {totals.requests} requests: "
        f"{totals.hits} hits, {totals.joined} joined, {totals.compiles} compiles, {totals.failures} failures; "
        f"store {status.store.entries} entries, {words.size(status.store.bytes)}"
    )


def _head(status: Status) -> Text:
    head = Text.assemble(
        ("inductord ", "bold"),
        (status.version.release, "bold"),
        f", pid {status.pid}, up {words.duration(status.uptime_seconds)}, {words.size(status.rss_bytes)} of memory",
    )
    if status.draining:
        head.append("  DRAINING", style="bold yellow")
    return head


def _facts(status: Status) -> Table:
    pool, store, totals = status.pool, status.store, status.totals
    facts = output.facts()
    facts.add_row("address", status.address)
    if status.listen:
        facts.add_row("listens on", f"tcp://{status.listen}")
    facts.add_row("metrics", f"http://{status.metrics_address}/metrics" if status.metrics_address else "off")
    workers = f"{pool.kind}: {pool.busy} busy, {pool.idle} idle"
    if pool.starting:
        workers += f", {pool.starting} starting"
    workers += f", at most {pool.max_workers}; {pool.queued} queued"
    if pool.crashes:
        workers += f"; {words.count(pool.crashes, 'crash', 'crashes')}"
    facts.add_row("pool", _gauge(pool.busy, pool.max_workers, "blue", workers))
    _note(facts, pool.note)
    stored = (
        f"{words.count(store.entries, 'entry', 'entries')}, {words.size(store.bytes)} of {words.size(store.max_bytes)}"
    )
    stored += f"; {words.size(store.memory_bytes)} in memory"
    if store.evictions:
        stored += f"; {store.evictions} evicted"
    facts.add_row("store", _gauge(store.bytes, store.max_bytes, "blue", stored))
    facts.add_row("", Text(store.path, style="dim"))
    if store.quarantined:
        _note(facts, f"{words.count(store.quarantined, 'damaged artifact')} in quarantine")
    _note(facts, store.note)
    if store.HasField("shared"):
        _shared(facts, store.shared)
    requests = f"{totals.requests}: {totals.hits} hits, {totals.joined} joined, {totals.led} led"
    waiting = sum(compile_.waiters for compile_ in status.compiles)
    if waiting:
        requests += f", {waiting} waiting"
    if totals.failures:
        requests += f", {totals.failures} failed"
    served = totals.hits + totals.joined
    facts.add_row("requests", _gauge(served, served + totals.led, "green", requests))
    spared = totals.saved_seconds
    took = f" of compiling; {totals.compiles} compiles took {words.duration(totals.compile_seconds)}"
    in_all = spared + totals.compile_seconds
    facts.add_row("saved", _gauge(spared, in_all, "green", (words.duration(spared), "bold green"), took))
    return facts


def _shared(facts: Table, shared: SharedStoreStatus) -> None:
    text = f"{shared.hits} hits, {shared.absent} absent"
    for count, word in ((shared.refused, "refused"), (shared.unread, "not read"), (shared.unwritten, "not written")):
        if count:
            text += f", {count} {word}"
    text += "; read only" if shared.read_only else f"; {shared.written} written, {shared.queued} queued"
    facts.add_row("shared store", text)
    facts.add_row("", Text(shared.url, style="dim"))
    _note(facts, shared.note)


def _note(facts: Table, note: str) -> None:
    if note:
        facts.add_row("", Text(note, style="yellow"))


def _compiles(compiles: list[RunningCompile]) -> RenderableType:
    columns = ("compiling", "graph", "nodes", "phase", "", "for", "ranks waiting")
    shown = output.table(*columns, right=("nodes", "for"), whole=columns[:-1])
    oldest = max(compile_.elapsed_seconds for compile_ in compiles)
    for compile_ in compiles[:_MANY]:
        shown.add_row(
            words.short_key(compile_.key),
            enum_name(_KIND, compile_.kind),
            str(compile_.nodes),
            _phase(compile_),
            bar(compile_.elapsed_seconds, oldest, _AGE_CELLS, _STATE_STYLES.get(compile_.state, "")),
            words.duration(compile_.elapsed_seconds),
            _waiting(compile_),
        )
    return _with_rest(shown, len(compiles))


def _phase(compile_: RunningCompile) -> Text:
    phase = Text(enum_name(_STATE, compile_.state), style=_STATE_STYLES.get(compile_.state, ""))
    if compile_.attempt > 1:
        phase.append(f", try {compile_.attempt}", style="yellow")
    return phase


def _waiting(compile_: RunningCompile) -> str:
    if not compile_.waiters:
        return "none"
    if compile_.waiters > len(compile_.waiting_ranks):
        return str(compile_.waiters)
    return f"{compile_.waiters}: {words.ranges(compile_.waiting_ranks)}"


def _jobs(jobs: list[JobSummary]) -> RenderableType:
    numbers = ("ranks", "waiting", "compiled", "shared", "saved", "fallbacks")
    shown = output.table("job", *numbers, "idle", right=(*numbers, "idle"))
    for job in jobs[:_MANY]:
        fallbacks = sum(job.sum.fallbacks.values())
        ranks = f"{job.ranks}/{job.world_size}" if job.world_size else str(job.ranks)
        shown.add_row(
            Text(words.plain(job.job)),
            ranks,
            Text(str(job.waiting), style="bold" if job.waiting else "dim"),
            f"{job.compiles}/{job.graphs}",
            str(job.sum.hits + job.sum.joined),
            Text(words.duration(job.sum.saved_seconds), style="green" if job.sum.saved_seconds else "dim"),
            Text(str(fallbacks), style="yellow" if fallbacks else "dim"),
            words.duration(job.last_seen_seconds_ago),
        )
    return _with_rest(shown, len(jobs))


def bar(value: float, whole: float, cells: int, style: str) -> Text:
    """``value`` of ``whole`` as a bar of at most that many cells, in eighths; anything above 0 shows."""
    eighths = round(8 * cells * min(value / whole, 1.0)) if whole > 0 else 0
    eighths = max(eighths, 1) if value > 0 else 0
    full, part = divmod(eighths, 8)
    return Text("█" * full + ("▏▎▍▌▋▊▉"[part - 1] if part else ""), style=style)


def _gauge(value: float, whole: float, style: str, *words_after: str | tuple[str, str]) -> Text:
    """A bar in a trough, and what it says in words."""
    filled = bar(value, whole, _GAUGE_CELLS, style)
    trough = "░" * (_GAUGE_CELLS - filled.cell_len)
    return Text.assemble(filled, (trough, "dim"), "  ", *words_after)


def _with_rest(shown: Table, number: int) -> RenderableType:
    if number <= _MANY:
        return shown
    return Group(shown, Text(f"and {number - _MANY} more", style="dim"))
