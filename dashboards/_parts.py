"""Panels, variables and links that all dashboards are made of, with the conventions that they keep.

Every panel has a title, a description and a unit. Expressions select by the variables of the dashboard and use
``$__rate_interval``. Nothing is editable: the source is here.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import bargauge, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

TAG = "inductord"
NODE = 'cluster=~"$cluster",namespace=~"$namespace",node=~"$node"'
JOB = f'{NODE},job=~"$job"'
"""Selectors: a label that Prometheus does not give its targets matches ``.*``."""

_SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
_ANY = ".*"
_WIDTH = 24


@dataclasses.dataclass(frozen=True)
class Query:
    """An expression and the legend of its series."""

    expr: str
    legend: str


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    *,
    unit: str = "short",
    stacked: bool = False,
    width: int = 8,
    most: float | None = None,
) -> timeseries.Panel:
    """Series over time; ``stacked`` for parts of a whole. ``most``: top of the axis, for ratios."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(_SOURCE)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(40 if stacked else 8)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .height(8)
        .span(width)
    )
    if stacked:
        panel = panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if most is not None:
        panel = panel.max(most)
    for number, query in enumerate(queries):
        panel = panel.with_target(_target(query, number).range())
    return panel


def rate(name: str, by: str = "", more: str = "") -> str:
    """What a counter gains a second on the chosen nodes. ``more``: further selectors, with a comma before them."""
    aggregated = f"sum by ({by})" if by else "sum"
    return f"{aggregated} (rate({name}{{{NODE}{more}}}[$__rate_interval]))"


def split(
    title: str, description: str, name: str, by: str, *, more: str = "", unit: str = "short", width: int = 8
) -> timeseries.Panel:
    """What a counter gains a second, as the parts that it has by a label. ``more``: see ``rate``."""
    query = Query(rate(name, by, more), f"{{{{{by}}}}}")
    return lines(title, description, [query], unit=unit, stacked=True, width=width)


def number(
    title: str,
    description: str,
    expr: str,
    *,
    unit: str = "short",
    width: int = 4,
    steps: Sequence[tuple[float, str]] = (),
) -> stat.Panel:
    """One number with its recent course. ``steps``: from which value on it has which colour."""
    thresholds = [
        model.Threshold(color="green", value=None),
        *(model.Threshold(value, color) for value, color in steps),
    ]
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(_SOURCE)
        .unit(unit)
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .thresholds(dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds))
        .height(4)
        .span(width)
        .with_target(_target(Query(expr, ""), 0).range())
    )


def heat(title: str, description: str, bucket: str, by: str = NODE, *, width: int = 8) -> heatmap.Panel:
    """How a histogram's observations spread over time. ``bucket``: the name of its buckets, perhaps with more labels in
    braces."""
    name, _, more = bucket.partition("{")
    selector = ",".join(part for part in (more.rstrip("}"), by) if part)
    query = Query(f"sum by (le) (increase({name}{{{selector}}}[$__rate_interval]))", "{{le}}")
    return (
        heatmap.Panel()
        .title(title)
        .description(description)
        .datasource(_SOURCE)
        .unit("s")
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(heatmap_model.HeatmapColorMode.SCHEME).scheme("Oranges").steps(64))
        .y_axis(heatmap.YAxisConfig().unit("s"))
        .height(8)
        .span(width)
        .with_target(_target(query, 0).format(PromQueryFormat.HEATMAP).exemplar(True).range())
    )


def bars(
    title: str, description: str, queries: Sequence[Query], *, unit: str = "short", width: int = 8, height: int = 8
) -> bargauge.Panel:
    """The latest values side by side."""
    panel = (
        bargauge.Panel()
        .title(title)
        .description(description)
        .datasource(_SOURCE)
        .unit(unit)
        .min(0)
        .orientation(common.VizOrientation.HORIZONTAL)
        .display_mode(common.BarGaugeDisplayMode.BASIC)
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC))
        .height(height)
        .span(width)
    )
    for number_, query in enumerate(queries):
        panel = panel.with_target(_target(query, number_).instant())
    return panel


def quantiles(bucket: str, by: str = NODE) -> list[Query]:
    """Median, 95th and 99th percentile of a histogram."""
    name, _, more = bucket.partition("{")
    selector = ",".join(part for part in (more.rstrip("}"), by) if part)
    return [
        Query(
            f"histogram_quantile({quantile}, sum by (le) (rate({name}{{{selector}}}[$__rate_interval])))",
            f"p{round(quantile * 100)}",
        )
        for quantile in (0.5, 0.95, 0.99)
    ]


def _target(query: Query, number: int) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .datasource(_SOURCE)
        .expr(query.expr)
        .legend_format(query.legend or "__auto")
        .ref_id(chr(ord("A") + number))
    )


def board(
    uid: str, title: str, description: str, rows: Sequence[tuple[str, Sequence[Any]]], *, by_job: bool = False
) -> dashboard.Dashboard:
    """A dashboard of titled rows of panels. ``by_job``: it is about the jobs that ``$job`` chooses."""
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("inductord")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(False)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("cluster", "Cluster", "inductord_build_info"))
        .with_variable(_variable("namespace", "Namespace", 'inductord_build_info{cluster=~"$cluster"}'))
        .with_variable(
            _variable("node", "Node", 'inductord_build_info{cluster=~"$cluster",namespace=~"$namespace"}', multi=True)
        )
    )
    # On the others it is hidden, so that links between dashboards keep it.
    hide = model.VariableHide.DONT_HIDE if by_job else model.VariableHide.HIDE_VARIABLE
    made = made.with_variable(_variable("job", "Job", f"inductord_job_ranks{{{NODE}}}", multi=True).hide(hide))
    for name, panels in rows:
        made = made.with_row(dashboard.Row(name))
        for panel in panels:
            made = made.with_panel(panel)
    return made


def _variable(name: str, label: str, series: str, *, multi: bool = False) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(_SOURCE)
        .query(f"label_values({series}, {name})")
        .definition(f"label_values({series}, {name})")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(multi)
        .include_all(True)
        .all_value(_ANY)
        .current(model.VariableOption(selected=True, text="All", value="$__all"))
    )
