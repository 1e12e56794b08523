"""The report as lines for a terminal: the sums, where ranks waited and for what."""

from inductord.daemon.cli import words
from inductord.daemon.report import totals
from inductord.daemon.report.facts import Facts, GraphFacts, compile_time, find
from inductord.daemon.report.gather import Report
from inductord.daemon.report.lanes import describe, in_words

_MOST = 8
_MOST_NAMED = 6


def as_text(report: Report) -> list[str]:
    """Line by line. The first lines are those of ``inductord run``."""
    facts = find(report.timeline)
    lines = totals.as_text(report.totals)
    slow = facts.slowest(_MOST)
    if slow:
        lines += ["", "  slowest compiles", *(f"    {_compile(graph)}" for graph in slow)]
    waited = facts.most_waited_for(_MOST)
    if waited:
        lines += ["", "  who waited for whom", *(f"    {_waiting(graph)}" for graph in waited)]
    lines += _ranks(facts)
    return lines


def _compile(graph: GraphFacts) -> str:
    return f"{words.duration(compile_time(graph.compile)):>9}  {describe(graph.kind, graph.nodes, graph.key)}"


def _waiting(graph: GraphFacts) -> str:
    ranks = sorted(graph.waiting, key=lambda rank: -graph.waiting[rank])
    said = f"{words.duration(graph.waited):>9}  {words.count(len(ranks), 'rank')} for "
    said += describe(graph.kind, graph.nodes, graph.key)
    if graph.compile is not None:
        said += f" of rank {graph.compile.rank}"
    return said


def _ranks(facts: Facts) -> list[str]:
    if not facts.ranks:
        return []
    by_time = sorted(facts.ranks, key=lambda rank: -rank.seconds)
    lines = ["", "  where the time went, busiest ranks first"]
    lines += [f"    rank {rank.rank}: {in_words(rank)}" for rank in by_time[:_MOST_NAMED]]
    if len(by_time) > _MOST_NAMED:
        lines.append(f"    and {len(by_time) - _MOST_NAMED} more")
    dropped = sum(rank.dropped for rank in facts.ranks)
    if dropped:
        lines.append(f"    {words.count(dropped, 'older span')} were not kept; the sums above have everything.")
    return lines
