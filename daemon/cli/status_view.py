"""How a status looks to people. Pure: a status in, something for rich to draw out."""

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
    facts.add_row("metrics", f"http://{status.metrics_address}/metrics" if status.metrics_address else "off")
    workers = f"{pool.kind}: {pool.busy} busy, {pool.idle} idle"
    if pool.starting:
        workers += f", {pool.starting} starting"
    workers += f", at most {pool.max_workers}; {pool.queued} queued"
    if pool.crashes:
        workers += f"; {words.count(pool.crashes, 'crash', 'crashes')}"
    facts.add_row("pool", workers)
    _note(facts, pool.note)
    stored = (
        f"{words.count(store.entries, 'entry', 'entries')}, {words.size(store.bytes)} of {words.size(store.max_bytes)}"
    )
    stored += f"; {words.size(store.memory_bytes)} in memory"
    if store.evictions:
        stored += f"; {store.evictions} evicted"
    facts.add_row("store", stored)
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
    facts.add_row("requests", requests)
    facts.add_row(
        "compiles",
        f"{totals.compiles}, {words.duration(totals.compile_seconds)} of compiling; "
        f"{words.duration(totals.saved_seconds)} saved",
    )
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
    numbers = ("for", "waiters", "try")
    shown = output.table(
        "compiling", "graph", "nodes", "state", *numbers, right=("nodes", *numbers), whole=("compiling",)
    )
    for compile_ in compiles[:_MANY]:
        shown.add_row(
            words.short_key(compile_.key),
            enum_name(_KIND, compile_.kind),
            str(compile_.nodes),
            enum_name(_STATE, compile_.state),
            words.duration(compile_.elapsed_seconds),
            str(compile_.waiters),
            str(compile_.attempt),
        )
    return _with_rest(shown, len(compiles))


def _jobs(jobs: list[JobSummary]) -> RenderableType:
    numbers = ("ranks", "graphs", "compiles", "hits", "joined", "fallbacks")
    shown = output.table("job", *numbers, "seen", right=numbers)
    for job in jobs[:_MANY]:
        fallbacks = sum(job.sum.fallbacks.values())
        ranks = f"{job.ranks}/{job.world_size}" if job.world_size else str(job.ranks)
        shown.add_row(
            job.job,
            ranks,
            str(job.graphs),
            str(job.compiles),
            str(job.sum.hits),
            str(job.sum.joined),
            Text(str(fallbacks), style="yellow" if fallbacks else ""),
            words.ago(job.last_seen_seconds_ago),
        )
    return _with_rest(shown, len(jobs))


def _with_rest(shown: Table, number: int) -> RenderableType:
    if number <= _MANY:
        return shown
    return Group(shown, Text(f"and {number - _MANY} more", style="dim"))
