"""The report as one page that needs nothing but itself: no network, no other file; it works without JavaScript too.

Everything from outside (names of jobs, hosts and workers, messages) reaches the page through the template's escaping only.
"""

import base64
import hashlib
import importlib.metadata
import importlib.resources

import jinja2
from markupsafe import Markup

from inductord import __version__
from inductord.compiler.reasons import Fallback
from inductord.daemon.cli import words
from inductord.daemon.cli.fallback_words import phrase
from inductord.daemon.report import bins, crowd, lanes
from inductord.daemon.report.facts import PARTS, Facts, RankFacts, compile_time, find
from inductord.daemon.report.gather import Report
from inductord.daemon.report.marks import LEGEND, RANK_KINDS, WORKER_KINDS, Area, Lane, Mark
from inductord.daemon.report.scale import WIDTH, Scale
from inductord.daemon.report.totals import caches_in_words, regions_in_words

_MOST_GRAPHS = 40
_MOST_RANKS = 40
_LOW_LANES = 24
"""With more lanes than these each is lower, so that the picture fits a screen."""

_LANE_UNITS = 100.0
_PLACES = {"whole": (12.0, 76.0), "lower": (70.0, 30.0)}
_FRAME = (4.0, 92.0)
_CELLS = {"trace": "trace", "key": "key", "serialize": "serialize", "wait": "joined", "load": "load", "local": "local"}


def render(report: Report) -> str:
    """The page as HTML."""
    facts = find(report.timeline)
    scale = Scale(facts.busy)
    crowded = crowd.is_crowd(report.timeline)
    make = crowd.group_lanes if crowded else lanes.rank_lanes
    rank_lanes = make(report.timeline, facts, scale) if report.timeline.ranks else []
    worker_lanes = [
        *lanes.queue_lane(report.timeline, scale),
        *lanes.worker_lanes(report.timeline, facts, scale),
    ]
    script = _file("report.js")
    page = _environment().get_template("report.html.j2")
    return page.render(
        report=report.totals,
        facts=facts,
        timeline=report.timeline,
        scale=scale,
        ticks=_spaced(scale),
        quiet=[piece for piece in scale.pieces if piece.quiet],
        rank_lanes=rank_lanes,
        worker_lanes=worker_lanes,
        crowded=crowded,
        low=len(rank_lanes) + len(worker_lanes) > _LOW_LANES,
        legend=_legend([*rank_lanes, *worker_lanes]),
        headline=headline(report, facts),
        regions=regions_in_words(report.totals),
        caches=caches_in_words(report.totals),
        slowest=sorted(facts.graphs, key=lambda graph: (-compile_time(graph.compile), -graph.waited))[:_MOST_GRAPHS],
        ranks=sorted(facts.ranks, key=lambda rank: -rank.seconds)[:_MOST_RANKS],
        most=max((rank.seconds for rank in facts.ranks), default=0.0),
        style=Markup(_file("report.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=__version__,
    )


def headline(report: Report, facts: Facts) -> str:
    """What to know first, in one or two sentences."""
    totals = report.totals
    if not totals.requests and not totals.fallbacks:
        return "No rank asked for a graph."
    said = f"{words.count(totals.ranks, 'rank')} asked {words.count(totals.requests, 'time')} for "
    said += f"{words.count(totals.graphs, 'distinct graph')}; {words.count(totals.compiles, 'compile')} of the pool "
    said += "served them." if not totals.fallbacks else "served what could be served."
    slowest = facts.slowest(1)
    if slowest:
        graph = slowest[0]
        took = words.duration(compile_time(graph.compile))
        said += f" The slowest took {took}: {lanes.describe(graph.kind, graph.nodes, graph.key)}."
    if facts.ranks:
        late = max(facts.ranks, key=lambda rank: rank.wait)
        said += f" Rank {late.rank} waited longest, {words.duration(late.wait)} in sum."
    return said


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=words.duration, short_key=words.short_key, u=_units, phrase=phrase, per_cent=_per_cent
    )
    environment.globals.update(
        describe=lanes.describe,
        compile_time=compile_time,
        rect=_rect,
        outlines=_outlines,
        parts=_parts,
        fallback_link=_fallback_link,
        clock=_clock,
        words=words,
        legend_of=LEGEND,
        width=WIDTH,
    )
    return environment


def _file(name: str) -> str:
    return importlib.resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _units(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _per_cent(x: float) -> str:
    return f"{100 * x / WIDTH:.3f}"


def _rect(mark: Mark) -> dict[str, str]:
    top, height = _FRAME if mark.kind == "trace" else _PLACES[mark.place]
    return {"x": _units(mark.x), "y": _units(top), "width": _units(mark.width), "height": _units(height)}


def _outlines(area: Area) -> str:
    """An SVG path around an area. Shares count from the bottom of the lane."""
    path = []
    for run in bins.runs(area.points):
        top = [f"{_units(x)} {_units(_LANE_UNITS * (1 - high))}" for x, _, high in run]
        bottom = [f"{_units(x)} {_units(_LANE_UNITS * (1 - low))}" for x, low, _ in reversed(run)]
        path.append(f"M{'L'.join([*top, *bottom])}Z")
    return "".join(path)


def _parts(rank: RankFacts, most: float) -> list[tuple[str, str, float]]:
    """The parts of a rank's time: kind of mark, words, per cent of ``most``."""
    seconds = [(part, getattr(rank, part)) for part in PARTS]
    return [
        (_CELLS[part], f"{part}: {words.duration(value)}", 100 * value / most) for part, value in seconds if value > 0
    ]


def _legend(shown: list[Lane]) -> list[tuple[str, str]]:
    used = {mark.kind for lane in shown for item in lane.items for mark in item.marks}
    used |= {area.kind for lane in shown for area in lane.areas}
    return [(kind, LEGEND[kind]) for kind in dict.fromkeys((*RANK_KINDS, *WORKER_KINDS)) if kind in used]


def _spaced(scale: Scale) -> list[tuple[float, str]]:
    """Ticks that leave room for their labels."""
    kept: list[tuple[float, str]] = []
    for tick in scale.ticks():
        if tick.x < WIDTH * 0.97 and (not kept or tick.x - kept[-1][0] > WIDTH / 20):
            kept.append((tick.x, _clock(tick.seconds)))
    return kept


def _clock(seconds: float) -> str:
    """A time since the start: ``12 s``, ``3:05``, ``1:03:05``."""
    if seconds < 60:
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _fallback_link(reason: str) -> str | None:
    """Where the documents explain a reason, when this release says where they are."""
    if reason not in frozenset(Fallback):
        return None
    urls = importlib.metadata.metadata("inductord").get_all("Project-URL") or []
    base = dict(url.split(", ", 1) for url in urls).get("Documentation")
    return None if base is None else f"{base.rstrip('/')}/fallbacks.md"
